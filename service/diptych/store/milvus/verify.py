"""Is a Milvus collection whole? Every record, every feature and every kept file are looked at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diptych.errors import StoreError
from diptych.pictures.content import picture_id
from diptych.store.records import Record
from diptych.store.sqlite.verify import Verdict

if TYPE_CHECKING:
    from diptych.store.milvus.database import MilvusStore


def verify(store: MilvusStore) -> Verdict:
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
        found = [*_record_faults(store, record), *feature_faults(store, row)]
        problems += [f"picture {row['id']}: {text}" for text in found]
        missing += not record.bytes_kept and (record.path is None or not Path(record.path).is_file())
    remarks = []
    if missing:
        remarks.append(f"{missing} pictures have neither kept bytes nor a file any more and cannot be embedded anew")
    if pictures != began:
        remarks.append(f"{pictures} pictures were read and Milvus counted {began}: others write meanwhile")
    return Verdict(pictures, problems, remarks)


def feature_faults(store: MilvusStore, row: Mapping[str, Any]) -> list[str]:
    """What is wrong with the embedding and the tokens of a row whose record is whole."""
    try:
        embedding, tokens = store.layout.embedding(row), store.layout.tokens(row)
    except StoreError as fault:
        return [str(fault)]
    norm = float(np.linalg.norm(np.frombuffer(embedding, "<f4")))
    faults = [] if abs(norm - 1.0) < 1e-3 else [f"its embedding has the length {norm:.4g}, expected 1"]
    if not np.isfinite(np.frombuffer(tokens, "<f2")).all():
        faults.append("its tokens are not finite")
    return faults


def _record_faults(store: MilvusStore, record: Record) -> list[str]:
    faults = [] if picture_id(record.sha256) == record.id else ["its id does not belong to its digest"]
    if record.bytes_kept and store.originals is not None:
        data = store.data(record.id)
        if data is None:
            faults.append("its kept file is gone; add it again from its file")
        elif hashlib.sha256(data).hexdigest() != record.sha256:
            faults.append("its kept bytes have another digest")
    return faults
