"""The candidate index: FAISS over all embeddings, in memory, with a checksummed cache beside the database.

The database is the truth. The cache only saves time at the start, so whatever is wrong with it, it is made anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import faiss
import numpy as np

from diptych.durable import write_durably
from diptych.store import Store

CACHE = "candidates.faiss"
MANIFEST = "candidates.json"
METRIC = "inner product"
_STEP = 4096

logger = logging.getLogger(__name__)


class CandidateIndex:
    """Exact inner-product search over unit embeddings, labelled with the rows of the database; thread-safe."""

    def __init__(self, dimension: int, revision: str, identity: str) -> None:
        self.dimension = dimension
        self.revision = revision
        self.identity = identity
        self.generation = 0
        self.saved_generation = 0
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self._highest = 0
        # FAISS wants changes to exclude searches. One lock is enough: a search here is short beside the two graphs.
        self._lock = Lock()
        self._replaying = Lock()

    def __len__(self) -> int:
        return self._index.ntotal

    @classmethod
    def open(cls, store: Store, dimension: int, revision: str) -> CandidateIndex:
        """The index of a collection: its cache with the newer changes replayed, or rebuilt, which is logged once."""
        index = cls(dimension, revision, store.identity)
        reason = index._load(store.directory, store.sequence())
        if reason is None:
            index.catch_up(store)
            count = store.count()
            # A change in between, by the writer beside this reader, would make the two counts differ for no fault.
            if len(index) != count and store.sequence() == index.generation:
                reason = f"it has {len(index)} entries after the replay and the database {count}"
        if reason is not None:
            index = cls.rebuilt(store, dimension, revision)
            if len(index):
                logger.warning("%s: %s; rebuilt from the database (%d)", store.directory / CACHE, reason, len(index))
        return index

    @classmethod
    def rebuilt(cls, store: Store, dimension: int, revision: str) -> CandidateIndex:
        """The index made from the pictures in the database; the journal serves only for what changes meanwhile."""
        index = cls(dimension, revision, store.identity)
        began, after = store.sequence(), 0
        while found := store.embeddings(after, _STEP):
            after = max(found)
            index._update(found, began, store.directory)
        index.generation = began
        index.catch_up(store)
        return index

    def catch_up(self, store: Store) -> None:
        """Replay what changed in the database since `generation`; doing it twice does no harm."""
        with self._replaying:
            while changes := store.changes(self.generation, _STEP):
                # A row that changed several times is in its present state in every one of its changes.
                present = {change.row: change.embedding for change in changes}
                self._update(present, changes[-1].sequence, store.directory)

    def _update(self, present: Mapping[int, bytes | None], generation: int, directory: Path) -> None:
        vectors = {row: _vector(blob, self.dimension) for row, blob in present.items() if blob is not None}
        usable = {row: vector for row, vector in vectors.items() if vector is not None}
        if len(usable) < len(vectors):
            logger.warning(
                "%s: %d embeddings are damaged and were left out; `diptych index rebuild --store %s` mends them",
                directory,
                len(vectors) - len(usable),
                directory,
            )
        with self._lock:
            known = [row for row in present if row <= self._highest]
            if known:
                self._index.remove_ids(np.array(known, np.int64))
            if usable:
                self._index.add_with_ids(np.stack(list(usable.values())), np.array(list(usable), np.int64))
                self._highest = max(self._highest, *usable)
            self.generation = generation

    def search(
        self, embedding: np.ndarray, count: int, among: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows int64 (n,) and cosines float32 (n,) of the n <= `count` nearest, nearest first, equals by row.

        `embedding` is one finite unit vector float32 (e,); raises ValueError otherwise. With `among` only these rows
        are looked for.
        """
        if embedding.shape != (self.dimension,) or not np.isfinite(embedding).all():
            raise ValueError(f"expected a finite embedding of {self.dimension} numbers, got shape {embedding.shape}")
        with self._lock:
            count = min(count, self._index.ntotal)
            chosen = None
            if among is not None:
                parameters: Any = faiss.SearchParameters  # whose stub does not know that it takes a selector
                chosen = parameters(sel=faiss.IDSelectorBatch(np.array(among, np.int64)))
                count = min(count, len(among))
            if count == 0:
                return np.empty(0, np.int64), np.empty(0, np.float32)
            threads = faiss.omp_get_max_threads()
            faiss.omp_set_num_threads(1)  # holds for the calling thread only, so it is set where it is needed
            try:
                cosines, rows = self._index.search(embedding[None].astype(np.float32), count, params=chosen)
            finally:
                faiss.omp_set_num_threads(threads)
        rows, cosines = rows[0], cosines[0]
        found = rows >= 0
        rows, cosines = rows[found], cosines[found]
        order = np.lexsort((rows, -cosines))
        return rows[order], cosines[order]

    def save(self, directory: Path) -> None:
        """Write the cache and then its manifest, each in one step; raises OSError if the disk does not take them."""
        with self._lock:
            data = faiss.serialize_index(self._index)
            manifest = {
                "generation": self.generation,
                "count": self._index.ntotal,
                "dimension": self.dimension,
                "metric": METRIC,
                "revision": self.revision,
                "identity": self.identity,
            }
        manifest["sha256"] = _digest(data, manifest)
        write_durably(directory / CACHE, data.data)
        write_durably(directory / MANIFEST, json.dumps(manifest, indent=2).encode())
        self.saved_generation = manifest["generation"]

    def _load(self, directory: Path, sequence: int) -> str | None:
        """Take over the cache; returns the reason if it cannot be used."""
        manifest, reason = read_manifest(directory)
        if reason is not None:
            return reason
        for key, wanted in (
            *(("dimension", self.dimension), ("metric", METRIC)),
            *(("revision", self.revision), ("identity", self.identity)),
        ):
            if manifest.get(key) != wanted:
                return f"it was made for {key} {manifest.get(key)!r}, not {wanted!r}"
        if manifest["generation"] > sequence:
            return f"it is ahead of the database (generation {manifest['generation']}, database {sequence})"
        data, reason = read_cache(directory, manifest)
        if data is None:
            return reason
        index: Any = faiss.deserialize_index(data)
        labels = faiss.vector_to_array(index.id_map)
        if index.ntotal != manifest["count"] or len(np.unique(labels)) != index.ntotal:
            return f"it has {index.ntotal} entries and {len(np.unique(labels))} labels, expected {manifest['count']}"
        self._index = index
        self._highest = int(labels.max(initial=0))
        self.generation = self.saved_generation = manifest["generation"]
        return None


def read_manifest(directory: Path) -> tuple[dict[str, Any], str | None]:
    """The cache's manifest and None, or an empty one and what is wrong with it."""
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
    except FileNotFoundError:
        return {}, "it is missing"
    except (OSError, ValueError) as error:
        return {}, f"its manifest cannot be read ({error})"
    if not isinstance(manifest, dict) or not all(isinstance(manifest.get(key), int) for key in ("generation", "count")):
        return {}, "its manifest is damaged"
    return manifest, None


def read_cache(directory: Path, manifest: dict[str, Any]) -> tuple[np.ndarray | None, str | None]:
    """The cache's bytes (uint8) if they and the manifest have its digest, or else what is wrong."""
    try:
        data = np.fromfile(directory / CACHE, np.uint8)
    except OSError as error:
        return None, f"it cannot be read ({error.strerror})"
    digest = _digest(data, manifest)
    if digest != manifest.get("sha256"):
        return None, f"its checksum is wrong ({digest[:12]}, expected {str(manifest.get('sha256'))[:12]})"
    return data, None


def _digest(data: np.ndarray, manifest: Mapping[str, Any]) -> str:
    """Of the cache and of what its manifest says: a generation too high would leave out changes in the replay."""
    facts = {key: value for key, value in manifest.items() if key != "sha256"}
    found = hashlib.sha256(data.data)
    found.update(json.dumps(facts, sort_keys=True).encode())
    return found.hexdigest()


def _vector(blob: bytes, dimension: int) -> np.ndarray | None:
    if len(blob) != 4 * dimension:
        return None
    vector = np.frombuffer(blob, "<f4")
    return vector if np.isfinite(vector).all() else None
