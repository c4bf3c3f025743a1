"""Embedding the pictures of a Milvus collection anew: the damaged ones in their place, or all of them beside it.

For another model a second collection grows under `NAME_rebuilding`, while services go on with the first. That one is
then called `NAME_replaced`, so that nobody can add to it any more, what came last is embedded too, and the second gets
the name. The names always say what is left to do, so that a rebuild that was interrupted goes on when it is run again.
Both carry the property `diptych.rebuild`; what has such a name without it is somebody else's, and is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from diptych.errors import StoreError
from diptych.store.embedder import BATCH, Embedder, MayDrop, OnFailure, OnProgress
from diptych.store.index.layout import Kind
from diptych.store.location import REBUILDING, REPLACED, Address
from diptych.store.milvus.client import SLOW, Server
from diptych.store.milvus.database import MilvusDatabase
from diptych.store.milvus.rows import Layout
from diptych.store.milvus.table import layout_of, make, properties_of
from diptych.store.originals import whole
from diptych.store.records import NewPicture, Record
from diptych.store.reports import RebuildReport
from diptych_runtime.errors import PictureError

_MARK = "diptych.rebuild"  # the property, which says what collection it is about


def rebuild(
    address: Address,
    embedder: Embedder,
    *,
    everything: bool = False,
    may_drop: MayDrop | None = None,
    index: Kind | None = None,
    on_error: OnFailure | None = None,
    on_progress: OnProgress | None = None,
) -> RebuildReport:
    """Bring a collection to the embedder's model and mend its damage; may be interrupted and run again.

    Of pictures that cannot be read any more those are removed that `may_drop` says, but for those whose bytes,
    kept or in their file, are whole; the others keep a collection from changing its model. Raises StoreError.
    """
    if index is not None:
        raise StoreError(f"{address} has the index that Milvus keeps; leave --index out")
    server = Server(address)
    try:
        work = _Work(
            server, embedder, may_drop, on_error or (lambda record, error: None), on_progress or (lambda done: None)
        )
        _tidy(server, address.collection)
        found = layout_of(server, address.collection)
        if everything or not found.fits(embedder.runtime):
            work.replace(address.collection)
        else:
            work.mend(MilvusDatabase(server, found, address.collection))
        count = MilvusDatabase(server, layout_of(server, address.collection), address.collection).count()
        return RebuildReport(count, work.embedded, work.failed, work.removed)
    finally:
        server.close()


def _tidy(server: Server, name: str) -> None:
    """Take back, or take to its end, the change of names that was going on when the last rebuild ended."""
    names, old = server.names(), f"{name}{REPLACED}"
    for other in names:
        if other in (old, f"{name}{REBUILDING}") and properties_of(server, other).get(_MARK) != name:
            raise StoreError(
                f"expected {other} on the server of {server.address} to be left by a rebuild, and it is something "
                "else; give it another name, as a rebuild needs this one"
            )
    if old in names and name in names:
        server.call("drop_collection", old, timeout=SLOW)
    elif old in names:
        server.call("rename_collection", old, name, timeout=SLOW)


@dataclass
class _Work:
    """One rebuild and how far it is."""

    server: Server
    embedder: Embedder
    may_drop: MayDrop | None
    on_error: OnFailure
    on_progress: OnProgress
    embedded: int = 0
    failed: int = 0
    removed: int = 0

    def mend(self, store: MilvusDatabase) -> None:
        """Give the damaged pictures of a collection their features again."""
        rows = (row for row in store.table.scan(store.layout.fields) if self._readable(store, row))
        damaged = (store.layout.record(row) for row in rows if store.layout.faults(row))
        while records := list(islice(damaged, BATCH)):
            self._embed(store, store, records)

    def replace(self, name: str) -> None:
        """Put a collection of the embedder's model in the place of another; the old one goes last."""
        new, old, wanted = f"{name}{REBUILDING}", f"{name}{REPLACED}", Layout.of(self.embedder.runtime)
        if new in self.server.names() and layout_of(self.server, new) != wanted:
            self.server.call("drop_collection", new, timeout=SLOW)
        make(self.server, new, wanted, {_MARK: name})
        target = MilvusDatabase(self.server, wanted, new)
        source = MilvusDatabase(self.server, layout_of(self.server, name), name)
        self._fill(source, target)
        if self.failed > self.removed:
            return
        self.server.call("alter_collection_properties", name, {**source.layout.properties(), _MARK: name})
        self.server.call("rename_collection", name, old, timeout=SLOW)
        source.table.name, source.table.level = old, "Strong"  # with all that was written before it had this name
        self._fill(source, target)
        if self.failed > self.removed:
            self.server.call("rename_collection", old, name, timeout=SLOW)
            return
        self._forget(source, target)
        self.server.call("rename_collection", new, name, timeout=SLOW)
        self.server.call("load_collection", name, timeout=SLOW)
        self.server.call("drop_collection", old, timeout=SLOW)

    def _fill(self, source: MilvusDatabase, target: MilvusDatabase) -> None:
        """Embed the source's pictures that the target lacks, and correct the records of the others by the source's."""
        rows = (row for row in source.table.scan(["record"], step=4 * BATCH) if self._readable(source, row))
        records = map(source.layout.record, rows)
        while batch := list(islice(records, BATCH)):
            there = target.records([record.id for record in batch])  # without damaged ones, which are embedded anew
            self._embed(source, target, [record for record in batch if record.id not in there])
            old = target.layout.revision
            self._correct(target, [r for r in batch if r.id in there and there[r.id] != replace(r, revision=old)])

    def _correct(self, target: MilvusDatabase, records: list[Record]) -> None:
        """Write records anew beside the features, which are the same: an id is a digest of the content."""
        now = {record.id: record for record in records}
        rows = target.table.rows(list(now), target.layout.fields)
        target.table.write([target.layout.changed(row, **_facts(now[row["id"]])) for row in rows])

    def _forget(self, source: MilvusDatabase, target: MilvusDatabase) -> None:
        """Remove from the target the pictures that were removed from the source meanwhile."""
        ids = (row["id"] for row in target.table.scan([], step=4096))
        while batch := list(islice(ids, 1000)):
            there = source.known(batch)
            target.remove([id for id in batch if id not in there])

    def _embed(self, source: MilvusDatabase, target: MilvusDatabase, records: list[Record]) -> None:
        good = []
        for record, made in zip(records, self.embedder(source, records), strict=True):
            if isinstance(made, PictureError):
                self._refuse(source, record, made)
            else:
                good.append(self._row(target, record, *made))
        target.table.write(good)
        self.embedded += len(good)
        self.on_progress(len(records))

    def _row(self, target: MilvusDatabase, record: Record, embedding: bytes, tokens: bytes) -> dict[str, Any]:
        facts = {name: value for name, value in _facts(record).items() if name not in ("added", "kept")}
        data = b"" if record.original_kept else None  # that there are some is all a row says of them
        revision = target.layout.revision
        picture = NewPicture(**facts, revision=revision, embedding=embedding, tokens=tokens, data=data)
        return target.layout.row(picture, record.added)

    def _readable(self, store: MilvusDatabase, row: dict[str, Any]) -> bool:
        """True if a record is whole; a damaged one cannot be mended, only removed."""
        try:
            store.layout.record(row)
        except StoreError as fault:
            nameless = Record(row["id"], None, {}, 0, 0, False, "", "", "", "")
            self._refuse(store, nameless, fault)
            return False
        return True

    def _refuse(self, store: MilvusDatabase, record: Record, error: Exception) -> None:
        self.failed += 1
        self.on_error(record, error)
        if self.may_drop is None or whole(store, record):
            return
        if self.may_drop(record):
            store.remove([record.id])
            self.removed += 1


def _facts(record: Record) -> dict[str, Any]:
    """The fields of a row beside its features."""
    names = ("id", "sha256", "path", "media_type", "width", "height", "metadata", "added", "frames", "stamp")
    return {**{name: getattr(record, name) for name in names}, "kept": record.original_kept}
