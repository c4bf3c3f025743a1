"""Embedding the pictures of a collection anew, wherever it is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from diptych.collection.ingest import make_features
from diptych.errors import UnknownPictureError
from diptych.scoring.scorer import Scorer
from diptych.scoring.threads import map_pictures
from diptych.store.embedder import OnFailure, OnProgress, Rebuild
from diptych.store.index.layout import Kind
from diptych.store.location import Location
from diptych.store.open import rebuild_store
from diptych.store.originals import Keeper, read_original
from diptych.store.records import Record
from diptych.store.reports import RebuildReport
from diptych.store.sqlite.adopted import AdoptedModel
from diptych_runtime.decoder import SUFFIXES
from diptych_runtime.errors import PictureError


def rebuild_collection(
    where: Location,
    scorer: Scorer,
    *,
    everything: bool = False,
    drop: bool = False,
    allow_removal: bool = False,
    index: Kind | None = None,
    adopted: str | None = None,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> RebuildReport:
    """Bring a collection to the scorer's model, mend its damage and make its index anew.

    May be interrupted and run again. With `drop`, pictures that cannot be read any more are removed, but for those
    whose bytes, kept or in their file, are whole, and, unless `allow_removal`, for those whose disk may be away: their
    folder is missing or has no picture any more, or their file cannot be opened. `index` is the kind of a folder's
    index from now on, and `adopted` the model that commands open it with from now on, also after an interruption.
    Raises StoreError.
    """
    removal = _Removal(allow_removal)
    work = Rebuild(scorer.runtime, partial(embed_stored, scorer), everything, None, index, on_error, on_progress)
    if drop:
        work.may_drop = removal.may_go
    report = rebuild_store(where, work, AdoptedModel.of(adopted, scorer.runtime.released) if adopted else None)
    return replace(report, spared=dict(removal.spared))


@dataclass
class _Removal:
    """The decision about each picture that cannot be read: with `everything`, all go; `spared` counts the others."""

    everything: bool
    spared: Counter[str] = field(default_factory=Counter)

    def may_go(self, record: Record) -> bool:
        """True if a picture may go: it has no file, or that is surely gone or another one."""
        reason = None if self.everything or record.path is None else _find_absence(Path(record.path))
        if reason is not None:
            self.spared[reason] += 1
        return reason is None


def _find_absence(path: Path) -> str | None:
    """The sign that a file is away and not gone, if there is one: a disk that is not mounted leaves an empty folder, or
    none.
    """
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
    """Make (embedding, tokens) of stored pictures from their files, or the error that says why there are none.

    They are decoded as the scorer decodes, on its threads.
    """

    def read_pixels(record: Record) -> np.ndarray:
        try:
            data = read_original(store, record, scorer.limits)
        except UnknownPictureError as error:
            raise PictureError(str(error)) from None
        return scorer.pixels(data, name=record.path)

    contents = map_pictures(read_pixels, records, scorer.runtime.threads)
    made = iter(make_features([pixels for pixels in contents if not isinstance(pixels, PictureError)], scorer))
    return [content if isinstance(content, PictureError) else next(made) for content in contents]
