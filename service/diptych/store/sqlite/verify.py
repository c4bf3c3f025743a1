"""Is a collection whole? The database, every stored feature, the kept files and the index cache are looked at."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from sqlite3 import Row

import numpy as np

from diptych.console import format_count
from diptych.errors import StoreError
from diptych.pictures.content import picture_id
from diptych.store.originals import find_feature_faults
from diptych.store.other_model import embedded_by
from diptych.store.records import VerifyReport
from diptych.store.sqlite import index_cache
from diptych.store.sqlite.candidates import describe_differences, find_differences
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import CacheFaultError
from diptych_runtime.token_codec import read_numbers

_STEP = 256


def verify_store(store: Store) -> VerifyReport:
    """Check a collection without a model and without changing anything; reads the whole database."""
    problems: list[str] = []
    pictures = missing = 0
    sizes: Counter[tuple[int, int]] = Counter()
    try:
        problems += [f"database: {text}" for text in store.find_damage()]
        problems += [f"label {n}: it has another checksum; label its pair again" for n in store.damaged_labels()]
        after = 0
        while rows := store.list_features(after, _STEP):
            after = rows[-1]["row"]
            pictures += len(rows)
            for row in rows:
                faults, size = _find_faults(row)
                sizes[len(row["embedding"]) // 4, size] += 1
                problems += [f"picture {row['id']}: {text}" for text in faults]
                missing += row["bytes"] is None and not (isinstance(row["path"], str) and Path(row["path"]).is_file())
    except StoreError as error:  # a database too broken to be read to its end
        return VerifyReport(pictures, [*problems, f"database: {error.__cause__ or error}"], [])
    if len(revisions := store.count_revisions()) > 1:
        name = "" if store.adopted_model() else " --model NAME"
        models = f"{embedded_by(revisions)}; `diptych index rebuild{name}` brings all to one"
        problems.append(f"embedded by several models: {models}")
    elif len(sizes) > 1:
        known = ", ".join(f"{count:,} with {e:,} and {t:,}" for (e, t), count in sizes.most_common())
        problems.append(f"features of different sizes (embedding, tokens): {known}; `diptych index rebuild` mends them")
    remarks = []
    if missing:
        remarks.append(f"pictures with neither kept bytes nor a file, which cannot be embedded again: {missing:,}")
    found, told = _check_cache(store)
    return VerifyReport(pictures, problems + found, remarks + told)


def _check_cache(store: Store) -> tuple[list[str], list[str]]:
    """The problems of the index cache, and the remarks on it that are no damage."""
    try:
        manifest = index_cache.read_manifest(store.directory)
        now, stored = store.embedding_checksums()
        vectors = index_cache.load_vectors(store.directory, manifest)
        replayed = _find_replayed_rows(store, manifest["generation"])
        if manifest.get("identity") != store.identity or manifest["generation"] > now:
            raise CacheFaultError("it belongs to another state of the database")
    except CacheFaultError as fault:
        return [], [f"index cache: {fault}; the next writer makes it again"]
    if others := find_differences(vectors.checksums(), stored) - replayed:
        return [f"index cache: {describe_differences(others)}; the next search or writer makes it again"], []
    if manifest["generation"] < now:
        behind = format_count(now - manifest["generation"], "change")
        return [], [f"index cache: {behind} behind, replayed when it is opened"]
    return [], []


def _find_replayed_rows(store: Store, generation: int) -> set[int]:
    """The rows that a cache of this generation takes up anew. Raises CacheFaultError if the journal is too short."""
    rows: set[int] = set()
    while changes := store.changes(generation, _STEP):
        if changes[0].sequence != generation + 1:
            raise CacheFaultError("it is further behind than the journal goes back")
        generation = changes[-1].sequence
        rows.update(change.row for change in changes)
    return rows


def _find_faults(row: Row) -> tuple[list[str], int]:
    """The faults of a picture, and how many numbers its tokens have."""
    faults = []
    if picture_id(row["sha256"]) != row["id"]:
        faults.append("its id does not belong to its digest")
    elif not row["record_whole"]:
        faults.append("its record has another checksum; remove it and add it again")
    if row["bytes"] is not None and hashlib.sha256(row["bytes"]).hexdigest() != row["sha256"]:
        faults.append("its kept bytes have another digest")
    try:
        embedding, tokens = np.frombuffer(row["embedding"], "<f4"), read_numbers(row["tokens"])
    except (ValueError, TypeError):  # the latter for what is no bytes at all
        return [*faults, "its features are cut short"], 0
    wrong = find_feature_faults(embedding, tokens)
    if not wrong and not row["features_whole"]:
        wrong = ["its embedding or tokens have another checksum; `diptych index rebuild` makes them anew"]
    return [*faults, *wrong], tokens.size
