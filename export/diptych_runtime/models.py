"""The released models beside this module, and artifacts and checkpoints by name or path."""

from __future__ import annotations

import os
from pathlib import Path

from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import MANIFEST
from diptych_runtime.own_calibration import OwnCalibration

MODELS = Path(__file__).parent / "models"
CHECKPOINT = "checkpoint"  # the folder of a released model with the weights to train on from


def bundled_models() -> list[str]:
    """Names of the models that came with the package."""
    return sorted(path.parent.name for path in MODELS.glob(f"*/{MANIFEST}"))


def find_checkpoint(model: str | os.PathLike[str]) -> Path:
    """The checkpoint folder of a bundled model (by name), of an artifact that has its weights, or of a checkpoint
    itself.
    """
    path = MODELS / model if isinstance(model, str) and model in bundled_models() else Path(model)
    return path / CHECKPOINT if (path / CHECKPOINT).is_dir() else path


def own_calibration(model: str | os.PathLike[str]) -> OwnCalibration | None:
    """The calibration of one's own that a model is named by; None for a name or a directory.

    Raises ArtifactError if it cannot be read.
    """
    path = Path(model)
    named = path.suffix == ".json" and path.name != MANIFEST and path.is_file()
    return OwnCalibration.load(path) if named else None


def find_artifact(model: str | os.PathLike[str]) -> Path:
    """The directory of a bundled model (by name), of an artifact (by path), or of that which a calibration of one's own
    (by path) is laid over; ArtifactError where there is none.
    """
    own = own_calibration(model)
    if own is not None:
        return find_artifact(own.model)
    if isinstance(model, str) and model in bundled_models():
        return MODELS / model
    path = Path(model)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        known = ", ".join(bundled_models()) or "none"
        raise ArtifactError(
            f"{os.fspath(model)!r} is neither a bundled model ({known}) nor a model artifact: as a path it {what}"
        )
    return path
