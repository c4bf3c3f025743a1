"""A collection on a Milvus server, with the interface of `diptych.store.open.Backend`.

One row is a whole picture, so that whatever ends a service or the server, a picture is there with all its features or
not at all. Rows are written by their id, a digest of the content: twice the same is one. Milvus answers a reading at
once with what it has taken in, or after about 0.2 s with all that was written before (`Strong`). Here whoever writes
waits until a strong reading sees it, and only then acknowledges; so readers, of which there are more, need not wait.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np

from diptych.errors import ModelMismatchError, NoOriginalsError, ReadOnlyError, StoreError
from diptych.pictures.content import picture_id
from diptych.store.filters import Filter, open_test
from diptych.store.location import REBUILDING, REPLACED, Address
from diptych.store.milvus.client import SECONDS, SLOW, Server
from diptych.store.milvus.rows import Layout, write_expression
from diptych.store.milvus.table import MOST, Table, layout_of, make_collection, properties_of
from diptych.store.other_model import ways_out
from diptych.store.rebuild import BATCH, Rebuild, RebuildReport
from diptych.store.records import FileStamp, NewPicture, Record, VerifyReport
from diptych_runtime.atomic import replacing_stream
from diptych_runtime.paths import shell_word
from diptych_runtime.runtime import Runtime

_MARK = "diptych.rebuild"  # the property, which says what collection a rebuild is about

logger = logging.getLogger(__name__)


class MilvusBackend:
    """Pictures on a Milvus server; thread-safe, and any number of processes may use one collection at once."""

    folder = None

    def __init__(self, server: Server, layout: Layout, collection: str, *, read_only: bool = False) -> None:
        """Prefer `open` and `searchable`. `collection` may have another name than the address says, for a rebuild."""
        self.server, self.layout, self.read_only = server, layout, read_only
        self.address, self.table = server.address, Table(server, layout, collection)
        self.originals = None if self.address.originals is None else Originals(self.address.originals)

    @classmethod
    def open(cls, address: Address, *, read_only: bool = False) -> Self:
        """Open the collection, whatever model embedded it. Raises StoreError, UnreachableError if nobody answers."""
        with _connect(address) as server:
            return cls(server, layout_of(server, address.collection), address.collection, read_only=read_only)

    @classmethod
    def searchable(cls, address: Address, runtime: Runtime, *, create: bool = False, read_only: bool = False) -> Self:
        """Open the collection to be searched by this model. Raises ModelMismatchError if another one embedded it."""
        name = address.collection
        with _connect(address) as server:
            if create:
                names = server.list_names()
                if name not in names and f"{name}{REPLACED}" in names:
                    raise StoreError(
                        f"{address} was being embedded anew, and {name}{REPLACED} waits for that; finish it with "
                        f"`diptych index rebuild --store {shell_word(address)}`"
                    )
                layout = layout_of(server, name) if name in names else Layout.of(runtime)
                if layout.fits_model(runtime):
                    make_collection(server, name, layout)
            found = layout_of(server, name)
            if not found.fits_model(runtime):
                raise ModelMismatchError(
                    f"the pictures in {address} were embedded by another model ({found.revision}) than {runtime.name} "
                    f"({runtime.revision}); {ways_out(address, runtime.revision, [found.revision])}"
                )
            store = cls(server, found, name, read_only=read_only)
            store.table.check(SECONDS)
            return store

    @property
    def name(self) -> str:
        """The address without its password."""
        return self.address.text

    def close(self) -> None:
        """Let go of the connection."""
        self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self) -> None:
        """Raise UnreachableError if the server does not answer within seconds, ModelMismatchError after a rebuild."""
        self.table.check(timeout=2.0)

    def insert(self, pictures: Sequence[NewPicture]) -> list[bool]:
        """Add pictures; says for each whether it is new. Of others only a path or kept bytes are filled in."""
        self._check_writing()
        new = {picture.id: picture for picture in reversed(pictures)}
        there = self.known_ids(list(new))
        fresh = [picture for id, picture in reversed(new.items()) if id not in there]
        added = datetime.now(UTC).isoformat(timespec="milliseconds")
        rows = [self.layout.row(picture, added) for picture in fresh]  # before a file is kept, as it may refuse
        files = {picture.id: picture.data for picture in fresh if picture.data is not None}
        self._keep_files(files)
        self.table.write(rows)
        self._keep_files(files)  # again: who removed the same picture meanwhile has taken its file away
        first = {picture.id for picture in fresh}
        self.complete((p.id, p.path, p.data) for p in pictures if p.id in there or new[p.id] is not p)
        return [picture.id in first and new[picture.id] is picture for picture in pictures]

    def complete(self, known: Iterable[tuple[str, str | None, bytes | None]]) -> None:
        """Fill in missing paths and bytes of stored pictures: (id, path or None, bytes or None) each."""
        self._check_writing()
        wanted: dict[str, tuple[str | None, bytes | None]] = {}
        for id, path, data in known:
            before = wanted.get(id, (None, None))
            wanted[id] = (path if before[0] is None else before[0], data if before[1] is None else before[1])
        files = {id: data for id, (_, data) in wanted.items() if data is not None}

        def list_lacking(record: Record) -> dict[str, Any]:
            path = wanted[record.id][0] if record.path is None else None
            kept = record.id in files and not record.original_kept
            return ({} if path is None else {"path": path}) | ({"kept": True} if kept else {})

        self._keep_files({id: files[id] for id in self.known_ids([*files])})
        self._change_rows([*wanted], list_lacking)
        self._keep_files({id: files[id] for id in self.known_ids([*files])})  # again, as in `insert`

    def note_stamps(self, seen: Iterable[tuple[str, str, FileStamp]]) -> None:
        """Remember how files were when they were read: (id, path, stamp) each, of pictures with that path."""
        self._check_writing()
        wanted = {(id, path): stamp for id, path, stamp in seen}

        def read_stamp(record: Record) -> dict[str, Any]:
            stamp = wanted.get((record.id, record.path or ""), record.stamp)
            return {} if stamp == record.stamp else {"stamp": stamp}

        self._change_rows([id for id, _ in wanted], read_stamp)

    def replace_metadata(self, given: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Give stored pictures other metadata: (id, metadata) each; unknown ids are left out."""
        self._check_writing()
        wanted = dict(given)
        self._change_rows([*wanted], lambda record: {"metadata": wanted[record.id]})

    def remove(self, ids: Sequence[str]) -> list[bool]:
        """Remove pictures; says for each whether it was there. Files that were kept of them go too."""
        self._check_writing()
        there = sorted(self.known_ids(ids))
        self.table.delete(there)
        if self.originals is not None:
            self.originals.drop(there, self.table.wait_until_visible)
        return [id in there for id in ids]

    def get(self, id: str) -> Record | None:
        """The record of a picture, or None. Raises StoreError if it is damaged."""
        for row in self.table.rows([id], ["record"]):
            return self.layout.record(row)
        return None

    def data(self, id: str) -> bytes | None:
        """The kept bytes of a picture, unchecked, or None."""
        return None if self.originals is None else self.originals.read(id)

    def check_keeping(self) -> None:
        """Raise NoOriginalsError if there is no folder for the files of pictures."""
        self._require_originals()

    def known_ids(self, ids: Sequence[str]) -> set[str]:
        """The given ids that are in the collection."""
        return {row["id"] for row in self.table.rows(ids, [])}

    def records(self, keys: Sequence[str], /) -> dict[str, Record]:
        """Records by id; those that are gone are left out, and so, with a warning, are damaged ones."""
        return self._read_whole(self.table.rows(keys, ["record"]), self.layout.record)

    def tokens(self, keys: Sequence[str], /) -> dict[str, bytes]:
        """Tokens by id, as written; those that are gone are left out, and so, with a warning, are damaged ones."""
        return self._read_whole(self.table.rows(keys, ["record", *self.layout.parts]), self.layout.tokens)

    def panels(self, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """(tokens, embedding) by id; pictures that are not there are left out. Raises StoreError if one is damaged."""
        fields = ["record", self.layout.vector, *self.layout.parts]
        return {
            row["id"]: (self.layout.tokens(row), self.layout.embedding(row)) for row in self.table.rows(ids, fields)
        }

    def embeddings_of(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Embeddings by id; pictures that are not there are left out. Raises StoreError if one is damaged."""
        return {row["id"]: self.layout.embedding(row) for row in self.table.rows(ids, ["record", self.layout.vector])}

    def page(self, limit: int, after: str | None = None, where: Filter | None = None) -> list[Record]:
        """Up to `limit` records that meet a condition, in the order of their ids, beginning behind `after`."""
        with open_test(where or {}) as meets:
            found = map(self.layout.record, self.table.scan(["record"], write_expression(where or {}), after, limit))
            return list(islice((record for record in found if meets(record.metadata)), limit))

    def pages(self, size: int, where: Filter | None = None) -> Iterator[list[Record]]:
        """All that `page` gives, page by page, whatever is removed meanwhile."""
        after = None
        while found := self.page(size, after, where):
            yield found
            after = found[-1].id

    def under(self, path: str) -> dict[str, str]:
        """Id and path of the pictures whose path is `path` or lies in the folder `path`."""
        folder = path.rstrip("/") + "/"
        asked = ""
        if path.isascii() and path.isprintable() and not set(path) & set('"\\{}'):
            asked = f'(path == "{path}" or (path > "{folder}" and path < "{folder[:-1]}0"))'
        found = self.table.scan(["path"], asked)
        return {row["id"]: row["path"] for row in found if row["path"] == path or row["path"].startswith(folder)}

    def count(self) -> int:
        """The number of pictures."""
        return self.table.count()

    def index_state(self) -> tuple[int, None]:
        """The number of pictures; Milvus does not count changes."""
        return self.table.count(timeout=2.0), None

    def disk_bytes(self) -> None:
        """Not to be known from here."""

    def stats(self) -> dict[str, Any]:
        """Counts, and where it is: directory, pictures, kept, revisions, server, originals."""
        pictures = self.count()
        return {
            "directory": self.name,
            "pictures": pictures,
            "kept": self.table.count("kept == true"),
            "revisions": {self.layout.revision: pictures} if pictures else {},
            "server": f"Milvus {self.server.version}",
            "originals": None if self.originals is None else str(self.originals.folder),
        }

    def index_facts(self) -> dict[str, Any]:
        """The facts of the index that Milvus keeps."""
        return {"kind": "hnsw", "count": self.count(), "dimension": self.layout.dimension}

    def nearest(self, embedding: np.ndarray, count: int, where: Filter | None) -> tuple[np.ndarray, np.ndarray]:
        """Ids (n,) and cosines float32 (n,) of the n <= `count` nearest that meet a condition; equals by id.

        Milvus's index is an approximation. If fewer than `count` come through the condition, all are looked at.
        """
        asked, wanted = write_expression(where or {}), min(count, MOST)
        with open_test(where or {}) as meets:
            while True:
                hits = self.table.find_hits(embedding, wanted, asked, with_facts=where is not None)
                met = [hit for hit in hits if where is None or self._meets_condition(meets, hit["entity"])]
                if where is None or len(met) >= min(count, MOST):
                    found = {hit["id"]: hit["distance"] for hit in met}
                    break
                if len(hits) < wanted or wanted == MOST:
                    rows = self.table.scan(["record", self.layout.vector], asked, step=1024)
                    rows = (row for row in rows if self._meets_condition(meets, row))
                    found = {row["id"]: float(np.asarray(row[self.layout.vector], "f4") @ embedding) for row in rows}
                    break
                wanted = min(8 * wanted, MOST)
        best = sorted(found, key=lambda id: (-found[id], id))[:count]
        return np.array(best, "<U32"), np.array([found[id] for id in best], np.float32)

    def verify(self) -> VerifyReport:
        """Check every record, every stored feature and every kept file; reads all of it and changes nothing."""
        problems: list[str] = []
        pictures = missing = 0
        began = self.count()
        for row in self.table.scan(self.layout.fields):
            pictures += 1
            try:
                record = self.layout.record(row)
            except StoreError as fault:
                problems.append(f"picture {row['id']}: {fault}")
                continue
            found = [*self._record_faults(record), *self.layout.find_faults(row)]
            problems += [f"picture {row['id']}: {text}" for text in found]
            missing += not record.original_kept and (record.path is None or not Path(record.path).is_file())
        remarks = []
        if missing:
            remarks.append(f"pictures with neither kept bytes nor a file, which cannot be embedded again: {missing:,}")
        if pictures != began:
            remarks.append(f"{pictures} pictures were read and Milvus counted {began}: others write meanwhile")
        return VerifyReport(pictures, problems, remarks)

    def _record_faults(self, record: Record) -> list[str]:
        faults = [] if picture_id(record.sha256) == record.id else ["its id does not belong to its digest"]
        if record.original_kept and self.originals is not None:
            data = self.data(record.id)
            if data is None:
                faults.append("its kept file is gone; add it again from its file")
            elif hashlib.sha256(data).hexdigest() != record.sha256:
                faults.append("its kept bytes have another digest")
        return faults

    def _change_rows(self, ids: Sequence[str], change: Callable[[Record], dict[str, Any]]) -> None:
        """Change the facts that `change` gives of a record; of pictures without any, no features are read."""
        wanted = [id for id, record in self.records(ids).items() if change(record)]
        rows = self.table.rows(wanted, self.layout.fields)
        self.table.write([self.layout.change_row(row, **change(self.layout.record(row))) for row in rows])

    def rebuild(self, work: Rebuild) -> RebuildReport:
        """Embed damaged pictures anew."""
        return rebuild_collection(self.address, work)

    def _meets_condition(self, meets: Callable[[dict[str, Any]], bool], row: Mapping[str, Any]) -> bool:
        return any(meets(record.metadata) for record in self._read_whole([row], self.layout.record).values())

    def _read_whole(
        self, rows: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Any]
    ) -> dict[str, Any]:
        whole = {}
        for row in rows:
            try:
                whole[row["id"]] = read(row)
            except StoreError as fault:
                logger.warning("%s: left out of a search: %s", self.name, fault)
        return whole

    def _keep_files(self, files: Mapping[str, bytes]) -> None:
        for id, data in files.items():
            self._require_originals().keep(id, data)

    def _require_originals(self) -> Originals:
        if self.originals is None:
            raise NoOriginalsError(
                f"{self.name} has no place for the files of pictures, as Milvus keeps none; name a folder that all who "
                f"use it share: --store '{self.name}?originals=/mnt/originals'"
            )
        return self.originals

    def _check_writing(self) -> None:
        if self.read_only:
            raise ReadOnlyError(f"the collection {self.name} was opened for reading only; nothing was changed")


class Originals:
    """Files by the id of their picture, which is a digest of their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, id: str, data: bytes) -> None:
        """Have the file on the disk when this returns. Raises StoreError."""
        path = self._make_path(id)
        if path.is_file():
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            growing = path.with_name(f".{id}.{uuid4().hex}")  # others may be at the same one
            with replacing_stream(path, growing) as file:
                file.write(data)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}; is the folder shared with us?") from None

    def read(self, id: str) -> bytes | None:
        """The bytes of a file, unchecked; None if it is not there."""
        try:
            return self._make_path(id).read_bytes()
        except OSError:
            return None

    def drop(self, ids: Sequence[str], wanted: Callable[[Sequence[str]], set[str]]) -> None:
        """Remove files, but for those whose ids are `wanted` when it is asked, with the files out of their place.

        Who adds a picture writes its file again after its row: either they find it gone, or the row is seen here.
        """
        aside = {}
        for id in ids:
            away = self._make_path(id).with_name(f".{id}.{uuid4().hex}")
            with suppress(OSError):
                self._make_path(id).rename(away)
                aside[id] = away
        back = set(aside)  # all of them, if nobody answers
        try:
            if aside:
                back = wanted(list(aside))
        finally:
            for id, away in aside.items():
                with suppress(OSError):
                    away.replace(self._make_path(id)) if id in back else away.unlink()

    def _make_path(self, id: str) -> Path:
        return self.folder / id[:2] / id


@contextmanager
def _connect(address: Address) -> Iterator[Server]:
    """A server, which is let go of after an error."""
    server = Server(address)
    try:
        yield server
    except BaseException:
        server.close()
        raise


def rebuild_collection(address: Address, work: Rebuild) -> RebuildReport:
    """Bring a collection to the rebuild's model and mend its damage; may be interrupted and run again.

    For another model a second collection grows under `NAME_rebuilding`, while services go on with the first. That one
    is then called `NAME_replaced`, so that nobody can add to it any more, what came last is embedded too, and the
    second gets the name. The names always say what is left to do, so that a rebuild that was interrupted goes on when
    it is run again. Both carry the property `diptych.rebuild`; what has such a name without it is somebody else's, and
    is left alone. A picture that cannot be read and stays keeps a collection from changing its model.

    Raises StoreError.
    """
    server, name = Server(address), address.collection
    try:
        _finish_renaming(server, name)
        found = layout_of(server, name)
        if work.everything or not found.fits_model(work.runtime):
            _replace_collection(server, name, work)
        else:
            _mend_damaged(MilvusBackend(server, found, name), work)
        work.report.pictures = MilvusBackend(server, layout_of(server, name), name).count()
        return work.report
    finally:
        server.close()


def _finish_renaming(server: Server, name: str) -> None:
    """Take back, or take to its end, the change of names that was going on when the last rebuild ended."""
    names, old = server.list_names(), f"{name}{REPLACED}"
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


def _mend_damaged(store: MilvusBackend, work: Rebuild) -> None:
    """Give the damaged pictures of a collection their features again."""
    rows = (row for row in store.table.scan(store.layout.fields) if _is_readable(store, row, work))
    damaged = (store.layout.record(row) for row in rows if store.layout.find_faults(row))
    while records := list(islice(damaged, BATCH)):
        _embed_batch(store, store, records, work)


def _replace_collection(server: Server, name: str, work: Rebuild) -> None:
    """Put a collection of the rebuild's model in the place of another; the old one goes last."""
    new, old, wanted = f"{name}{REBUILDING}", f"{name}{REPLACED}", Layout.of(work.runtime)
    if new in server.list_names() and layout_of(server, new) != wanted:
        server.call("drop_collection", new, timeout=SLOW)
    make_collection(server, new, wanted, {_MARK: name})
    target = MilvusBackend(server, wanted, new)
    source = MilvusBackend(server, layout_of(server, name), name)
    _fill_target(source, target, work)
    if work.report.failed > work.report.removed:
        return
    server.call("alter_collection_properties", name, {**source.layout.properties(), _MARK: name})
    server.call("rename_collection", name, old, timeout=SLOW)
    source.table.name, source.table.level = old, "Strong"  # with all that was written before it had this name
    _fill_target(source, target, work)
    if work.report.failed > work.report.removed:
        server.call("rename_collection", old, name, timeout=SLOW)
        return
    ids = (row["id"] for row in target.table.scan([], step=4096))
    while batch := list(islice(ids, 1000)):  # those that were removed from the source meanwhile
        there = source.known_ids(batch)
        target.remove([id for id in batch if id not in there])
    server.call("rename_collection", new, name, timeout=SLOW)
    server.call("load_collection", name, timeout=SLOW)
    server.call("drop_collection", old, timeout=SLOW)


def _fill_target(source: MilvusBackend, target: MilvusBackend, work: Rebuild) -> None:
    """Embed the source's pictures that the target lacks, and correct the records of the others by the source's.

    Features need no correction: an id is a digest of the content.
    """
    rows = (row for row in source.table.scan(["record"], step=4 * BATCH) if _is_readable(source, row, work))
    records, revision = map(source.layout.record, rows), target.layout.revision
    while batch := list(islice(records, BATCH)):
        there = target.records([record.id for record in batch])  # without damaged ones, which are embedded anew
        _embed_batch(source, target, [record for record in batch if record.id not in there], work)
        known = {one.id: one for one in batch if one.id in there and there[one.id] != replace(one, revision=revision)}
        changed = target.table.rows(list(known), target.layout.fields)
        target.table.write([target.layout.change_row(row, **_copy_facts(known[row["id"]])) for row in changed])


def _embed_batch(source: MilvusBackend, target: MilvusBackend, records: list[Record], work: Rebuild) -> None:
    good = work.embed_pictures(source, records)
    rows = []
    for record, embedding, tokens in good:
        facts = {name: value for name, value in _copy_facts(record).items() if name not in ("added", "kept")}
        data = b"" if record.original_kept else None  # that there are some is all a row says of them
        picture = NewPicture(**facts, revision=target.layout.revision, embedding=embedding, tokens=tokens, data=data)
        rows.append(target.layout.row(picture, record.added))
    target.table.write(rows)
    work.count_batch(len(records), len(good))


def _is_readable(store: MilvusBackend, row: dict[str, Any], work: Rebuild) -> bool:
    """True if a record is whole; a damaged one cannot be mended, only removed."""
    try:
        store.layout.record(row)
    except StoreError as fault:
        work.refuse_picture(store, Record(row["id"], None, {}, 0, 0, False, "", "", "", ""), fault)
        return False
    return True


def _copy_facts(record: Record) -> dict[str, Any]:
    """The fields of a row beside its features."""
    names = ("id", "sha256", "path", "media_type", "width", "height", "metadata", "added", "frames", "stamp")
    return {**{name: getattr(record, name) for name in names}, "kept": record.original_kept}
