"""Embedding the pictures of a folder anew, after a change of model or damage."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path

from diptych.errors import StoreError
from diptych.store.embedder import BATCH, Embedder, MayDrop, OnFailure, OnProgress
from diptych.store.index.candidates import CandidateIndex
from diptych.store.index.layout import Kind
from diptych.store.originals import whole
from diptych.store.reports import RebuildReport
from diptych.store.sqlite.adopted import AdoptedModel
from diptych.store.sqlite.database import Store
from diptych_runtime.errors import PictureError
from diptych_runtime.paths import shell_word
from diptych_runtime.runtime import Runtime

logger = logging.getLogger(__name__)


def rebuild(
    directory: Path,
    embedder: Embedder,
    *,
    everything: bool = False,
    may_drop: MayDrop | None = None,
    index: Kind | None = None,
    adopted: AdoptedModel | None = None,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> RebuildReport:
    """Bring the collection in a folder to the embedder's model, mend its damage and write its index anew.

    May be interrupted and run again. Of pictures that cannot be read any more those are removed that `may_drop` says,
    but for those whose bytes, kept or in their file, are whole; `index` is the index's kind and `adopted`
    the collection's model from now on. Raises StoreError.
    """
    with _past_mending(directory), Store.open(directory) as store:
        if adopted is not None:
            store.adopt(adopted, ())
        compacted = _compacted(store, embedder.runtime)
        report = reembed(
            store, embedder, everything=everything, may_drop=may_drop, on_error=on_error, on_progress=on_progress
        )
        runtime = embedder.runtime
        foreign = sum(count for revision, count in store.revisions().items() if revision != runtime.revision)
        report = replace(report, compacted=compacted, mended=_mended(store), foreign=foreign)
        if index is not None:
            store.set_index_kind(index)
        CandidateIndex.rebuilt(store, runtime.embedding_dim, runtime.revision).save(store.directory)
    return report


def reembed(
    store: Store,
    embedder: Embedder,
    *,
    everything: bool = False,
    may_drop: MayDrop | None = None,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> RebuildReport:
    """Give every picture of another revision, or of a wrong size, features of the embedder's model, batch by batch."""
    runtime = embedder.runtime
    # A revision that no model has makes every picture out of date.
    revision, sizes = ("" if everything else runtime.revision), (4 * runtime.embedding_dim, prod(runtime.token_shape))
    after = embedded = failed = removed = 0
    while found := store.outdated(revision, sizes, after, BATCH):
        after = found[-1][0]
        records = [record for _, record in found]
        good = []
        for record, made in zip(records, embedder(store, records), strict=True):
            if isinstance(made, PictureError):
                failed += 1
                if on_error is not None:
                    on_error(record, made)
                if may_drop is not None and not whole(store, record) and may_drop(record):
                    store.remove([record.id])
                    removed += 1
            else:
                good.append((record.id, *made))
        store.replace_features(good, runtime.revision)
        embedded += len(good)
        if on_progress is not None:
            on_progress(len(found))
    return RebuildReport(store.count(), embedded, failed, removed)


def _compacted(store: Store, runtime: Runtime) -> int:
    """Keep tokens that an earlier version of Diptych kept in float16 as the model has them; returns of how many.

    No picture is read for it.
    """
    codec, after, count = runtime.codec, 0, 0
    if not codec.byte_channels:
        return 0
    while found := store.tokens_of_size(runtime.revision, codec.float16_nbytes, after, BATCH):
        store.replace_tokens(dict(zip(found, codec.pack_tokens(codec.unpack_tokens([*found.values()])), strict=True)))
        after, count = max(found), count + len(found)
    return count


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@contextmanager
def _past_mending(directory: Path) -> Iterator[None]:
    """Add the next step to the error of a database that SQLite cannot read."""
    try:
        yield
    except StoreError as error:
        if type(error.__cause__) is not sqlite3.DatabaseError:  # what is a subclass is no damage: a full disk, for one
            raise
        raise _lost(directory, error.__cause__) from error


def _lost(directory: Path, reason: object) -> StoreError:
    return StoreError(
        f"{directory}: {reason}; this cannot be mended. Restore a backup, or add the pictures to a new collection; "
        f"`diptych index export --store {shell_word(directory)}` lists those that can still be read"
    )


def _mended(store: Store) -> bool:
    """Write a database that SQLite finds damaged, and its indexes, anew from its readable rows; False if it was whole.

    Raises StoreError where damage is left.
    """
    if not store.damage():
        _make_smaller(store)
        return False
    with store.reading() as connection:
        connection.execute("REINDEX")
        connection.execute("VACUUM")
    if left := store.damage():
        raise _lost(store.directory, left[0])
    return True


def _make_smaller(store: Store) -> None:
    """Write a database anew that is a quarter empty, without its empty pages, if there is room for it."""
    with store.reading() as connection:
        if 4 * _pragma(connection, "freelist_count") <= _pragma(connection, "page_count"):
            return
        try:
            connection.execute("VACUUM")
        except sqlite3.OperationalError as error:
            logger.warning(
                "%s keeps its size: it is written anew to become smaller, and there is no room for that (%s); "
                "nothing is lost, and the next `diptych index rebuild` tries again",
                store.path,
                error,
            )
