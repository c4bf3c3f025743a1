"""Embedding the pictures of a collection anew, wherever it is, and giving it another model.

With another model what was embedded stays where the panel graph is the same, and the rest is embedded anew.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from diptych.collection.ingest import make_features
from diptych.errors import UnknownPictureError
from diptych.scoring.scorer import Scorer
from diptych.scoring.threads import map_pictures
from diptych.store.location import Location
from diptych.store.open import rebuild_store
from diptych.store.originals import Keeper, read_original
from diptych.store.rebuild import OnFailure, OnProgress, Rebuild, RebuildReport
from diptych.store.records import Record
from diptych.store.sqlite.candidates import CandidateIndex
from diptych.store.sqlite.database import AdoptedModel, Store
from diptych_runtime.decoder import SUFFIXES
from diptych_runtime.errors import ArtifactError, PictureError
from diptych_runtime.manifest import PANEL_GRAPH, Manifest
from diptych_runtime.models import models_by_name
from diptych_runtime.own_calibration import OwnCalibration, remove_calibration


def rebuild_collection(
    where: Location,
    scorer: Scorer,
    *,
    everything: bool = False,
    drop: bool = False,
    allow_removal: bool = False,
    adopted: str | None = None,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> RebuildReport:
    """Bring a collection to the scorer's model, mend its damage and make its index anew.

    May be interrupted and run again. With `drop`, pictures that cannot be read any more are removed, but for those
    whose bytes, kept or in their file, are whole, and, unless `allow_removal`, for those whose disk may be away: their
    folder is missing or has no picture any more, or their file cannot be opened. `adopted` is the model that commands
    open it with from now on, also after an interruption. Raises StoreError.
    """
    work = Rebuild(scorer.runtime, partial(embed_stored, scorer), everything, None, on_error, on_progress)
    spared = work.report.spared

    def may_go(record: Record) -> bool:
        """True if a picture may go: it has no file, or that is surely gone or another one."""
        reason = None if allow_removal or record.path is None else _find_absence(Path(record.path))
        if reason is not None:
            spared[reason] = spared.get(reason, 0) + 1
        return reason is None

    work.may_drop = may_go if drop else None
    return rebuild_store(where, work, AdoptedModel.of(adopted, scorer.runtime.released) if adopted else None)


def _find_absence(path: Path) -> str | None:
    """Why a file may be out of reach and not deleted: a disk that is not mounted leaves an empty folder, or none."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                file.read(1)
            return None
        with os.scandir(path.parent) as entries:
            if any(entry.is_dir() or os.path.splitext(entry.name)[1].lower() in SUFFIXES for entry in entries):  # noqa: PTH122
                return None
    except (FileNotFoundError, NotADirectoryError):
        return f"{path.parent} does not exist"
    except OSError as error:
        return f"{path.parent} or a file in it cannot be read: {error.strerror}"
    return f"{path.parent} has no picture any more"


def embed_stored(scorer: Scorer, store: Keeper, records: Sequence[Record]) -> list[tuple[bytes, bytes] | PictureError]:
    """Make (embedding, tokens) of stored pictures from their files, or the error that says why there are none."""

    def read_pixels(record: Record) -> np.ndarray:
        try:
            data = read_original(store, record, scorer.limits)
        except UnknownPictureError as error:
            raise PictureError(str(error)) from None
        return scorer.pixels(data, name=record.path)

    contents = map_pictures(read_pixels, records, scorer.runtime.threads)
    made = iter(make_features([pixels for pixels in contents if not isinstance(pixels, PictureError)], scorer))
    return [content if isinstance(content, PictureError) else next(made) for content in contents]


@dataclass(frozen=True)
class Adoption:
    """Pictures that were `kept` as they were, what was `rebuilt`, and whether an own `calibration` was removed."""

    kept: int
    rebuilt: RebuildReport | None
    calibration: bool


def adopt_model(
    folder: Path,
    scorer: Scorer,
    model: str,
    *,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> Adoption:
    """Give the collection in a folder the scorer's model, which commands without `--model` open as `model` from now on.

    Where only the pair graph is another, tokens and embeddings stay, and pictures are of the new revision in one
    transaction. Others are embedded anew, which may be interrupted and run again. Scores of pairs are of a revision and
    go by themselves. Raises StoreError, also while another process writes to the collection.
    """
    released = scorer.runtime.released
    adopted = AdoptedModel.of(model, released)
    with Store.open(folder) as store:
        known = _list_panels(store.adopted_model())
        before = list(store.count_revisions())
        same = {revision for revision in before if known.get(revision) == adopted.panel} | {adopted.revision}
        whole = len(before) == 1 and before[0] in same
        index = CandidateIndex.open(store, released.embedding_dim, before[0]) if whole else None
        kept = store.adopt_model(adopted, same)
        others = store.count() - kept
        if index is not None:
            index.revision = adopted.revision
            index.save(store.directory)
    rebuilt = rebuild_collection(folder, scorer, on_error=on_error, on_progress=on_progress) if others else None
    return Adoption(kept, rebuilt, _drop_calibration(folder, released))


def _list_panels(adopted: AdoptedModel | None) -> Mapping[str, str]:
    """The sha256 of the panel graph of every known model by revision: bundled, own and the `adopted` one."""
    known = {} if adopted is None else {adopted.revision: adopted.panel}
    return known | {manifest.revision: manifest.digests[PANEL_GRAPH] for manifest in models_by_name().values()}


def _drop_calibration(folder: Path, released: Manifest) -> bool:
    """Remove the calibration of one's own if it was made over another model; True if it was."""
    try:
        own = OwnCalibration.load_beside(folder)
    except ArtifactError:
        return False  # a damaged one is named where it is used
    return own is not None and not own.fits(released) and remove_calibration(folder)
