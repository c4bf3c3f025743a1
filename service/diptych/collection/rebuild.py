"""Embedding the pictures of a collection anew, after a change of model or damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from diptych.collection.ingest import BATCH, features
from diptych.errors import StoreError, UnknownPictureError
from diptych.scoring.scorer import Scorer
from diptych.scoring.threads import each
from diptych.store.index.candidates import CandidateIndex
from diptych.store.index.layout import Kind
from diptych.store.originals import Keeper, original
from diptych.store.records import Record
from diptych.store.sqlite.database import Store
from diptych_runtime.errors import PictureError

Failure = Callable[[Record, Exception], None]


@dataclass(frozen=True)
class Rebuilt:
    """How many pictures there are, how many were embedded anew, and how many could not be.

    `mended` says whether the database itself was damaged, and is whole again.
    """

    pictures: int
    embedded: int
    failed: int
    mended: bool = False


def rebuild(
    directory: Path,
    scorer: Scorer,
    *,
    everything: bool = False,
    drop: bool = False,
    index: Kind | None = None,
    on_error: Failure | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Rebuilt:
    """Bring the collection in a folder to the scorer's model, mend what is damaged and write its index anew.

    May be interrupted and run again. With `drop`, pictures that cannot be read any more are removed; `index` is the
    index's kind from now on. Raises StoreError.
    """
    with _past_mending(directory), Store.open(directory) as store:
        report = reembed(store, scorer, everything=everything, drop=drop, on_error=on_error, on_progress=on_progress)
        report = replace(report, mended=_mended(store))
        runtime = scorer.runtime
        if index is not None:
            store.set_index_kind(index)
        CandidateIndex.rebuilt(store, runtime.embedding_dim, runtime.revision).save(store.directory)
    return report


def reembed(
    store: Store,
    scorer: Scorer,
    *,
    everything: bool = False,
    drop: bool = False,
    on_error: Failure | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Rebuilt:
    """Give every picture of another revision, or of a wrong size, features of the scorer's model, batch by batch."""
    runtime = scorer.runtime
    n, m, d = runtime.token_shape
    # A revision that no model has makes every picture out of date.
    revision, sizes = ("" if everything else runtime.revision), (4 * runtime.embedding_dim, 2 * n * m * d)
    after = embedded = failed = 0
    while found := store.outdated(revision, sizes, after, BATCH):
        after = found[-1][0]
        records = [record for _, record in found]
        contents = each(lambda record: pixels_of(store, record, scorer), records, runtime.threads)
        good = []
        for record, content in zip(records, contents, strict=True):
            if isinstance(content, PictureError):
                failed += 1
                if on_error is not None:
                    on_error(record, content)
                if drop:
                    store.remove([record.id])
            else:
                good.append((record.id, content))
        made = features([pixels for _, pixels in good], scorer)
        store.replace_features([(id, *pair) for (id, _), pair in zip(good, made, strict=True)], runtime.revision)
        embedded += len(good)
        if on_progress is not None:
            on_progress(len(found))
    return Rebuilt(store.count(), embedded, failed)


@contextmanager
def _past_mending(directory: Path) -> Iterator[None]:
    """Says what is left to do with a database that SQLite cannot read."""
    try:
        yield
    except StoreError as error:
        if type(error.__cause__) is not sqlite3.DatabaseError:  # what is a subclass is no damage: a full disk, for one
            raise
        raise StoreError(
            f"{directory}: {error.__cause__}; this cannot be mended. Restore a backup, or add the pictures to a new "
            f"collection; `diptych index export --store {directory}` lists those that can still be read"
        ) from error


def _mended(store: Store) -> bool:
    """Write a database that SQLite finds damaged anew from what can be read of it; False if it was whole."""
    if not store.damage():
        return False
    with store.reading() as connection:
        connection.execute("VACUUM")
    return True


def pixels_of(store: Keeper, record: Record, scorer: Scorer) -> np.ndarray:
    """A stored picture as the network sees it, from its file. Raises PictureError if there is none any more."""
    try:
        data = original(store, record, scorer.limits)
    except UnknownPictureError as error:
        raise PictureError(str(error)) from None
    return scorer.pixels(data, name=record.path)
