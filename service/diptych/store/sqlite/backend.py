"""Pictures in a folder: the database, and beside it a candidate index that follows it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from diptych.errors import ModelMismatchError, StoreError
from diptych.store.filters import Filter
from diptych.store.other_model import ways_out
from diptych.store.rebuild import Rebuild, RebuildReport
from diptych.store.records import NewPicture, VerifyReport
from diptych.store.sqlite import index_cache
from diptych.store.sqlite.candidates import CandidateIndex
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import CacheFaultError
from diptych.store.sqlite.rebuild import reembed_pictures
from diptych.store.sqlite.verify import verify_store
from diptych_runtime.atomic import disk_bytes

if TYPE_CHECKING:
    from diptych_runtime.runtime import Runtime

_SAVE_AFTER = 1024
# Steps of the journal that are kept, or as many as there are pictures: to replay more costs more than to begin anew.
_JOURNAL = 10_000

logger = logging.getLogger(__name__)


class SqliteBackend(Store):
    """The store of a folder with, if it was opened to be searched, its index."""

    _index: CandidateIndex | None = None

    def __init__(self, directory: Path, **options: Any) -> None:
        super().__init__(directory, **options)
        self._restored = Lock()  # held by a reader while it takes up another state
        self.changing = Lock()  # held by whoever writes until the index has taken it up

    @classmethod
    def searchable(cls, directory: Path, runtime: Runtime, *, create: bool = False, read_only: bool = False) -> Self:
        """Open the collection in a folder with its index. Raises StoreError, ModelMismatchError for another model."""
        store = cls.open(directory, create=create, read_only=read_only)
        try:
            store._open_index(runtime)
        except BaseException:
            Store.close(store)
            raise
        return store

    def _open_index(self, runtime: Runtime) -> None:
        others = {revision: n for revision, n in self.count_revisions().items() if revision != runtime.revision}
        if others:
            count, whole = sum(others.values()), self.count()
            raise ModelMismatchError(
                f"{count} of the {whole} pictures in {self.directory} {'was' if count == 1 else 'were'} embedded by "
                f"another model ({', '.join(others)}) than {runtime.name} ({runtime.revision}); "
                f"{ways_out(self.directory, runtime.revision, others, partly=count < whole)}"
            )
        self._index = CandidateIndex.open(self, runtime.embedding_dim, runtime.revision)
        if not self.read_only and self._index.saved_generation != self._index.generation:
            self._save_index()

    @property
    def name(self) -> str:
        """The folder, as `--store` takes it."""
        return str(self.directory)

    @property
    def folder(self) -> Path:
        """The folder, in which other files may lie too."""
        return self.directory

    @property
    def index(self) -> CandidateIndex:
        """The candidate index. Raises StoreError if the store was opened without a model."""
        if self._index is None:
            raise StoreError(f"the collection {self.directory} was opened without a model and cannot be searched")
        return self._index

    def close(self) -> None:
        """Write the index cache and let the next writer in; without that the next start takes longer."""
        if self._index is not None and not self._closed:
            with self.changing:
                if not self.read_only and self._index.saved_generation != self._index.generation:
                    self._save_index()
        super().close()

    def insert(self, pictures: Sequence[NewPicture]) -> list[bool]:
        """As the store does, and the index follows."""
        with self._update_index_after():
            return super().insert(pictures)

    def remove(self, ids: Sequence[str]) -> list[bool]:
        """As the store does, and the index follows."""
        with self._update_index_after():
            return super().remove(ids)

    def relocate(self, places: Iterable[tuple[str, str, str | None]]) -> None:
        """As the store does, and the index follows."""
        with self._update_index_after():
            super().relocate(places)

    def nearest(self, embedding: np.ndarray, count: int, where: Filter | None) -> tuple[np.ndarray, np.ndarray]:
        """Rows int64 (n,) and cosines float32 (n,) of the n <= `count` nearest that meet a condition, nearest first."""
        if self.read_only:
            self._follow_writer()
        found = self.index.search(embedding, count, None if where is None else self.rows(where))
        if self._has_strays(found[0]):
            logger.warning("%s: the index has pictures that the database has not; it is made anew", self.directory)
            self.index.refill(self)
            found = self.index.search(embedding, count, None if where is None else self.rows(where))
        return found

    def _follow_writer(self) -> None:
        """Take up the changes of the writer, who may have restored another state."""
        if self.present_identity() != self.identity:
            with self._restored:  # who comes meanwhile waits for the index of the present state
                if (identity := self.present_identity()) != self.identity:
                    self.index.refill(self)
                    self.identity = self.index.identity = identity
        self.index.catch_up(self)

    def _has_strays(self, rows: np.ndarray) -> bool:
        """True if some of the rows are in the index and not in the database, and the journal does not explain it."""
        query = "SELECT row FROM pictures WHERE row IN (SELECT value FROM json_each(?))"
        missing = set(rows.tolist()).difference(row for (row,) in self._fetch_all(query, (json.dumps(rows.tolist()),)))
        if missing:  # as a rule removed since the search
            self.index.catch_up(self)
        return bool(missing) and not missing.isdisjoint(self.index.rows().tolist())

    def index_state(self) -> tuple[int, int]:
        """The numbers of pictures in the index and of changes it has taken up."""
        return len(self.index), self.index.generation

    def disk_bytes(self) -> int:
        """The size of the files in bytes; 0 if the folder was removed meanwhile."""
        return disk_bytes(self.directory)

    def index_facts(self) -> dict[str, Any]:
        """The state of the index; without a model, that of the saved one."""
        if self._index is None:
            with suppress(CacheFaultError):
                manifest = index_cache.read_manifest(self.directory)
                return {"kind": "exact", "count": manifest["count"], "generation": manifest["generation"]}
            return {"kind": "exact"}
        return {
            "kind": "exact",
            "count": len(self.index),
            "dimension": self.index.dimension,
            "generation": self.index.generation,
            "saved_generation": self.index.saved_generation,
        }

    def check(self) -> None:
        """A folder is always there."""

    def check_keeping(self) -> None:
        """The database takes files, too."""

    def verify(self) -> VerifyReport:
        """Check the database, every stored feature and the index cache."""
        return verify_store(self)

    def rebuild(self, work: Rebuild) -> RebuildReport:
        """Embed damaged pictures anew, and make the index from the database alone."""
        with self.changing:
            report = reembed_pictures(self, work)
            self.index.refill(self)
            self._save_index()
        return report

    @contextmanager
    def _update_index_after(self) -> Iterator[None]:
        """Let the index take up the writes of the enclosed block; its cache is saved when enough have come together."""
        # The database first: an index that lacks a change replays it; one ahead of it would find what is not there.
        with self.changing:
            yield
            if self._index is None:
                return
            self._index.catch_up(self)
            if self._index.generation - self._index.saved_generation >= max(_SAVE_AFTER, len(self._index) // 8):
                self._save_index()

    def _save_index(self) -> None:
        # The cache before the journal: a kill between leaves steps too many, and never a cache that lacks some.
        try:
            self.index.save(self.directory)
        except OSError as error:
            # Only time is lost: the database has everything, and the next start makes the cache again.
            logger.warning("%s: the index cache was not written: %s", self.directory, error.strerror)
            return
        try:
            self.shorten_journal(max(_JOURNAL, len(self.index)))
        except StoreError as error:
            logger.warning("%s; the journal is shortened another time", error)
