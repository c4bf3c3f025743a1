"""The candidate index: all embeddings in memory, as the database's journal says, with a cache beside the database.

The database is the truth. The cache only saves time at the start, so whatever is wrong with it, it is made anew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from diptych.store.sqlite import index_cache
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import CacheFaultError
from diptych.store.sqlite.vectors import Vectors
from diptych_runtime.paths import shell_word

METRIC = "inner product"
FORMAT = 3

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
        self._vectors = Vectors(dimension)
        # Changes exclude searches. One lock is enough: a search here is short beside the two graphs.
        self._lock = Lock()
        self._renewing = Lock()  # held while it is made anew for searches that wait for it
        self._changing = Lock()  # held by whoever changes or saves, so that searches go on while there is nothing new

    def __len__(self) -> int:
        return len(self._vectors)

    @classmethod
    def open(cls, store: Store, dimension: int, revision: str) -> CandidateIndex:
        """The index of a collection: its cache with the newer changes replayed, or rebuilt, which is logged once."""
        index = cls(dimension, revision, store.identity)
        try:
            index._load_cache(store.directory, store.sequence())
            index.catch_up(store)
            index._check_entries(store)
        except CacheFaultError as fault:
            index.refill(store)
            if len(index):
                path = store.directory / index_cache.CACHE
                logger.warning("%s: %s; rebuilt from the database (%d)", path, fault, len(index))
        return index

    @classmethod
    def rebuilt(cls, store: Store, dimension: int, revision: str) -> CandidateIndex:
        """The index made from the database alone: the same one for the same pictures."""
        index = cls(dimension, revision, store.identity)
        index.refill(store)
        return index

    def refill(self, store: Store) -> None:
        """Make it from the pictures in the database, while searches and changes go on with what there was.

        Both are in memory for that time. The journal serves only for what changes meanwhile.
        """
        fresh = CandidateIndex(self.dimension, self.revision, self.identity)
        fresh.generation, after = store.sequence(), 0
        while found := store.embeddings(after, _STEP):
            after = max(found)
            fresh._update_vectors(found, fresh.generation, store.directory)
        fresh.catch_up(store)
        with self._changing:
            fresh.catch_up(store)  # little is left for the time in which nobody can add
            with self._lock:
                self._vectors, self.generation = fresh._vectors, fresh.generation

    def catch_up(self, store: Store) -> None:
        """Replay the changes of the database since `generation`; beyond what the journal has, make it anew."""
        if not self._replay_changes(store):
            with self._renewing:  # once, however many searches find that
                if not self._replay_changes(store):
                    logger.info("%s: more has changed than the journal holds; the index is made anew", store.directory)
                    self.refill(store)

    def _replay_changes(self, store: Store) -> bool:
        """Replay the changes of the database; False if the journal does not go back to `generation`."""
        with self._changing:
            while (changes := store.changes(self.generation, _STEP)) and changes[0].sequence == self.generation + 1:
                # A row that changed several times is in its present state in every one of its changes.
                present = {change.row: change.embedding for change in changes}
                self._update_vectors(present, changes[-1].sequence, store.directory)
        return not changes

    def _check_entries(self, store: Store) -> None:
        """Raise CacheFaultError if it differs from the database, unless a writer is further on, who has compared it."""
        count = store.count()
        sequence, stored = store.embedding_checksums()
        if sequence != self.generation:
            return
        if len(self) != count:
            raise CacheFaultError(f"it has {len(self)} entries after the replay and the database {count}")
        if others := find_differences(self.checksums(), stored):
            raise CacheFaultError(describe_differences(others))

    def _update_vectors(self, present: Mapping[int, bytes | None], generation: int, directory: Path) -> None:
        usable = _select_usable(present, self.dimension)
        damaged = sum(blob is not None for blob in present.values()) - len(usable)
        if damaged:
            mend = f"`diptych index rebuild --store {shell_word(directory)}` mends them"
            logger.warning("%s: %d embeddings are damaged and were left out; %s", directory, damaged, mend)
        with self._lock:
            self._vectors.remove(list(present))
            if usable:
                self._vectors.add(list(usable), np.stack(list(usable.values())))
            self.generation = generation

    def search(
        self, embedding: np.ndarray, count: int, among: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows int64 (n,), all or `among` some, and cosines float32 (n,) of the nearest, equals by row."""
        with self._lock:
            return self._vectors.search(embedding, count, among)

    def rows(self) -> np.ndarray:
        """The rows int64 (n,) that are in it, ascending."""
        with self._lock:
            return self._vectors.labels()

    def checksums(self) -> dict[int, int]:
        """The CRC-32 of every embedding in it, by row."""
        with self._lock:
            return self._vectors.checksums()

    def save(self, directory: Path) -> None:
        """Write the cache and then its manifest, each in one step; raises OSError if the disk does not take them."""
        with self._changing:
            facts = {"generation": self.generation, "count": len(self), **self._state_facts()}
            index_cache.save_vectors(directory, self._vectors, facts)
            self.saved_generation = self.generation

    def _load_cache(self, directory: Path, sequence: int) -> None:
        """Take over the cache. Raises CacheFaultError if it cannot be used."""
        manifest = index_cache.read_manifest(directory)
        for key, wanted in self._state_facts().items():
            if manifest.get(key) != wanted:
                raise CacheFaultError(f"it was made for {key} {manifest.get(key)!r}, not {wanted!r}")
        if manifest["generation"] > sequence:
            generations = f"generation {manifest['generation']}, database {sequence}"
            raise CacheFaultError(f"it is ahead of the database ({generations})")
        self._vectors = index_cache.load_vectors(directory, manifest)
        self.generation = self.saved_generation = manifest["generation"]

    def _state_facts(self) -> dict[str, Any]:
        """The facts that a cache of this index must state."""
        facts = {"format": FORMAT, "dimension": self.dimension, "metric": METRIC}
        return {**facts, "revision": self.revision, "identity": self.identity}


def find_differences(one: Mapping[int, int], other: Mapping[int, int]) -> set[int]:
    """The rows that two collections of checksums by row do not have alike."""
    return {row for row, _ in one.items() ^ other.items()}


def describe_differences(rows: Set[int]) -> str:
    """In words, that an index differs from the database in these rows."""
    return f"{len(rows)} of its entries are not the database's, the first of row {min(rows)}"


def _select_usable(present: Mapping[int, bytes | None], dimension: int) -> dict[int, np.ndarray]:
    """The embeddings float32 (e,) that are there, whole and finite, by row."""
    vectors = {
        row: np.frombuffer(blob, "<f4")
        for row, blob in present.items()
        if blob is not None and len(blob) == 4 * dimension
    }
    return {row: vector for row, vector in vectors.items() if np.isfinite(vector).all()}
