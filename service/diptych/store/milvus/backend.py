"""A collection on a Milvus server, as `diptych.store.backend.Backend` wants it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from diptych.errors import StoreError
from diptych.pictures.content import picture_id
from diptych.store.embedder import Embedder, OnFailure, OnProgress
from diptych.store.index.layout import Kind
from diptych.store.milvus.database import MilvusDatabase
from diptych.store.milvus.rebuild import rebuild
from diptych.store.records import Record
from diptych.store.reports import RebuildReport, VerifyReport


class MilvusBackend(MilvusDatabase):
    """Pictures on a Milvus server that can be checked and embedded anew."""

    def verify(self) -> VerifyReport:
        """Check every record, every stored feature and every kept file."""
        return verify(self)

    def rebuild(
        self,
        embedder: Embedder,
        *,
        everything: bool = False,
        index: Kind | None = None,
        on_error: OnFailure | None = None,
        on_progress: OnProgress | None = None,
    ) -> RebuildReport:
        """Embed damaged pictures (with `everything`: all of them) anew."""
        return rebuild(
            self.address, embedder, everything=everything, index=index, on_error=on_error, on_progress=on_progress
        )


def verify(store: MilvusDatabase) -> VerifyReport:
    """Check a collection without a model and without changing anything; reads all of it."""
    problems: list[str] = []
    pictures = missing = 0
    began = store.count()
    for row in store.table.scan(store.layout.fields):
        pictures += 1
        try:
            record = store.layout.record(row)
        except StoreError as fault:
            problems.append(f"picture {row['id']}: {fault}")
            continue
        found = [*_record_faults(store, record), *store.layout.faults(row)]
        problems += [f"picture {row['id']}: {text}" for text in found]
        missing += not record.original_kept and (record.path is None or not Path(record.path).is_file())
    remarks = []
    if missing:
        remarks.append(f"pictures with neither kept bytes nor a file, which cannot be embedded again: {missing:,}")
    if pictures != began:
        remarks.append(f"{pictures} pictures were read and Milvus counted {began}: others write meanwhile")
    return VerifyReport(pictures, problems, remarks)


def _record_faults(store: MilvusDatabase, record: Record) -> list[str]:
    faults = [] if picture_id(record.sha256) == record.id else ["its id does not belong to its digest"]
    if record.original_kept and store.originals is not None:
        data = store.data(record.id)
        if data is None:
            faults.append("its kept file is gone; add it again from its file")
        elif hashlib.sha256(data).hexdigest() != record.sha256:
            faults.append("its kept bytes have another digest")
    return faults
