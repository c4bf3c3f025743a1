"""Embedding the pictures of a folder anew, after a change of model or damage."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

from diptych.errors import StoreError
from diptych.store.rebuild import BATCH, Rebuild, RebuildReport
from diptych.store.sqlite.candidates import CandidateIndex
from diptych.store.sqlite.database import AdoptedModel, Store
from diptych_runtime.paths import shell_word

logger = logging.getLogger(__name__)


def rebuild_folder(directory: Path, work: Rebuild, adopted: AdoptedModel | None = None) -> RebuildReport:
    """Bring the collection in a folder to the rebuild's model, mend it and make its index anew. Raises StoreError."""
    runtime, report = work.runtime, work.report
    with _explain_damage(directory), Store.open(directory) as store:
        if adopted is not None:
            store.adopt_model(adopted, ())
        reembed_pictures(store, work)
        report.foreign = sum(n for revision, n in store.count_revisions().items() if revision != runtime.revision)
        report.mended = _mend_database(store)
        CandidateIndex.rebuilt(store, runtime.embedding_dim, runtime.revision).save(store.directory)
    return report


def reembed_pictures(store: Store, work: Rebuild) -> RebuildReport:
    """Give every picture of another revision, or of a wrong size, features of the rebuild's model, batch by batch."""
    runtime, after = work.runtime, 0
    # A revision that no model has makes every picture out of date.
    revision = "" if work.everything else runtime.revision
    sizes = (4 * runtime.embedding_dim, prod(runtime.token_shape))
    while found := store.list_outdated(revision, sizes, after, BATCH):
        after = found[-1][0]
        good = work.embed_pictures(store, [record for _, record in found])
        store.replace_features([(record.id, embedding, tokens) for record, embedding, tokens in good], runtime.revision)
        work.count_batch(len(found), len(good))
    work.report.pictures = store.count()
    return work.report


@contextmanager
def _explain_damage(directory: Path) -> Iterator[None]:
    """Add the next step to the error of a database that SQLite cannot read."""
    try:
        yield
    except StoreError as error:
        if type(error.__cause__) is not sqlite3.DatabaseError:  # what is a subclass is no damage: a full disk, for one
            raise
        raise _make_loss_error(directory, error.__cause__) from error


def _make_loss_error(directory: Path, reason: object) -> StoreError:
    return StoreError(
        f"{directory}: {reason}; this cannot be mended. Restore a backup, or add the pictures to a new collection; "
        f"`diptych index export --store {shell_word(directory)}` lists those that can still be read"
    )


def _mend_database(store: Store) -> bool:
    """Write a damaged database anew from its readable rows; False for a whole one. Raises StoreError for the rest."""
    if not store.find_damage():
        _shrink_database(store)
        return False
    with store.reading() as connection:
        connection.execute("REINDEX")
        connection.execute("VACUUM")
    if left := store.find_damage():
        raise _make_loss_error(store.directory, left[0])
    return True


def _shrink_database(store: Store) -> None:
    """Write a database anew that is a quarter empty, without its empty pages, if there is room for it."""
    with store.reading() as connection:
        free, pages = (connection.execute(f"PRAGMA {of}_count").fetchone()[0] for of in ("freelist", "page"))
        try:
            if 4 * free > pages:
                connection.execute("VACUUM")
        except sqlite3.OperationalError as error:
            remark = (
                "there is no room to write it anew; nothing is lost, and the next `diptych index rebuild` tries again"
            )
            logger.warning("%s keeps its size: %s (%s)", store.path, remark, error)
