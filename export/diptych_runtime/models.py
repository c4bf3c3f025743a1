"""The released models beside this module, and artifacts and checkpoints by name or path."""

from __future__ import annotations

import os
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from diptych_runtime.errors import ArtifactError, NoHomeError, UnknownModelError
from diptych_runtime.manifest import MANIFEST, Manifest
from diptych_runtime.own_calibration import OwnCalibration
from diptych_runtime.paths import data_folder, given_path

MODELS = Path(__file__).parent / "models"
OWN_MODELS = "DIPTYCH_MODELS"  # the variable that names the folder of one's own
# Revisions of earlier releases, which collections were made with: a new release adds the one that it replaces.
FORMER = {
    "69ddc9f7f338": "photo",
    "20c841f9f6fe": "photo",
    "890d5beb348c": "photo",
    "561720e3c018": "photo-small",
    "be2aa7b1acc8": "photo-small",
}
CHECKPOINT = "checkpoint"  # the folder of a released model with the weights to train on from


def bundled_models() -> list[str]:
    """Names of the models that came with the package."""
    return sorted(path.parent.name for path in MODELS.glob(f"*/{MANIFEST}"))


def own_models_folder() -> Path:
    """The folder of one's own models: the one that DIPTYCH_MODELS names, or `~/.local/share/diptych-models`.

    Raises NoHomeError.
    """
    if named := os.environ.get(OWN_MODELS, ""):
        return Path(given_path(named)).absolute()
    return data_folder(otherwise=f"name a folder for your models with {OWN_MODELS}") / "diptych-models"


def own_models() -> list[str]:
    """Names of the artifacts in the folder of one's own models, without those that a bundled model has."""
    try:
        folder = own_models_folder()
    except NoHomeError:
        return []
    found = {path.parent.name for path in folder.glob(f"*/{MANIFEST}") if path.parent.name[0] != "."}
    return sorted(found.difference(bundled_models()))


def models_by_name() -> dict[str, Manifest]:
    """The manifests of the bundled models and then of one's own, without those that cannot be read."""
    places = {name: MODELS / name for name in bundled_models()}
    places |= {name: own_models_folder() / name for name in own_models()}
    found = {}
    for name, place in places.items():
        with suppress(ArtifactError):
            found[name] = Manifest.load(place)
    return found


def names_by_revision(models: dict[str, Manifest]) -> dict[str, str]:
    """The names of models, as `models_by_name` gives them, by their revisions; of two with one revision the first."""
    return {manifest.revision: name for name, manifest in reversed(models.items())}


def find_checkpoint(model: str | os.PathLike[str]) -> Path:
    """The checkpoint folder of a bundled model (by name), of an artifact that has its weights, or of a checkpoint
    itself.
    """
    path = named_model(model) or Path(given_path(model))
    return path / CHECKPOINT if (path / CHECKPOINT).is_dir() else path


def own_calibration(model: str | os.PathLike[str]) -> OwnCalibration | None:
    """The calibration of one's own that a model is named by; None for a name or a directory.

    Raises ArtifactError if it cannot be read.
    """
    path = Path(model)
    named = path.suffix == ".json" and path.name != MANIFEST and path.is_file()
    return OwnCalibration.load(path) if named else None


def find_artifact(model: str | os.PathLike[str]) -> Path:
    """The directory of a bundled model or of one's own (by name), of an artifact (by path), or of the model that a
    calibration of one's own (by path) is laid over; ArtifactError where there is none, UnknownModelError for a name.
    """
    own = own_calibration(model)
    if own is not None:
        path = Path(own.model)
        if path.suffix == ".json" and path.is_file():
            raise ArtifactError(
                f"the calibration {os.fspath(model)} is over {own.model}, which is a file and no model; make it again "
                "with `diptych calibrate`"
            )
        return find_artifact(own.model)
    if (named := named_model(model)) is not None:
        return named
    path = Path(model)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        known = ", ".join(bundled_models()) or "none"
        own = f", nor one of your own ({', '.join(own_models())})" if own_models() else ""
        name = os.fspath(model)
        # Without a folder in it, it is more likely a name that is spelt wrongly than a path.
        is_name = not path.exists() and os.sep not in name
        close = get_close_matches(name, [*bundled_models(), *own_models()], n=2) if is_name else []
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        raise (UnknownModelError if is_name else ArtifactError)(
            f"{name!r} is neither a bundled model ({known}){own} nor a model artifact: as a path it {what}{meant}"
        )
    return path


def full_name(model: str) -> str:
    """The name of a bundled model or of one's own, and the absolute path of any other: the same from every working
    directory.
    """
    return model if named_model(model) is not None else str(Path(model).absolute())


def named_model(model: str | os.PathLike[str]) -> Path | None:
    """The directory of a bundled model or of one of one's own, by its name; None where there is none of that name."""
    if not isinstance(model, str) or not model or model.startswith(".") or os.sep in model:
        return None
    if model in bundled_models():
        return MODELS / model
    return own_models_folder() / model if model in own_models() and not Path(model).exists() else None
