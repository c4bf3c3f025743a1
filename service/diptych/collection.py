"""`Collection`: a folder that remembers pictures and finds those that show the same thing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import numpy as np

from diptych import search as stages
from diptych.content import Content, thumbnail
from diptych.errors import ModelMismatchError, UnknownPictureError
from diptych.filters import compiled
from diptych.index import CandidateIndex
from diptych.intake import Added, Arrival, Known, batches, checked_metadata, foreseen, full_path, receive, rows
from diptych.layout import Kind
from diptych.originals import original
from diptych.parallel import each
from diptych.rebuild import Rebuilt, reembed
from diptych.records import Record
from diptych.renewal import Renewal
from diptych.scorer import Scorer
from diptych.search import SearchResult
from diptych.store import Store
from diptych.verify import Verdict, verify
from diptych_export.errors import PictureError
from diptych_export.pictures import PictureSource

Records = list[Record]
Acknowledged = list[Added]
Received = list[Content | Known | PictureError]
Refusal = Callable[[Path, PictureError], None]

_SAVE_AFTER = 1024

logger = logging.getLogger(__name__)


class Collection:
    """Pictures, their features and a candidate index in one folder; may be used from several threads at once.

    >>> with Collection.open("store", Scorer.load(), create=True) as collection:
    ...     collection.add("cat.jpg")
    ...     collection.search("cat-cropped.jpg").matches
    """

    def __init__(self, store: Store, scorer: Scorer, index: CandidateIndex) -> None:
        """Prefer `Collection.open`; the three parts must belong together."""
        self.store = store
        self.scorer = scorer
        self.index = index
        self._writing = Lock()
        self._renewal = Renewal(index, store, self._save)

    @classmethod
    def open(
        cls, directory: str | os.PathLike[str], scorer: Scorer, *, create: bool = False, read_only: bool = False
    ) -> Collection:
        """Open the collection in a folder; a damaged or stale index cache is repaired on the way.

        One process may write, others may open it with `read_only=True` at the same time. Raises StoreError, and
        ModelMismatchError if its pictures were embedded by another model.
        """
        store = Store.open(Path(directory), create=create, read_only=read_only)
        try:
            runtime = scorer.runtime
            others = {revision: n for revision, n in store.revisions().items() if revision != runtime.revision}
            if others:
                raise ModelMismatchError(
                    f"{sum(others.values())} of the {store.count()} pictures in {store.directory} were embedded by "
                    f"another model ({', '.join(others)}) than {runtime.name} ({runtime.revision}); "
                    f"embed them anew with `diptych index rebuild --store {store.directory}`, or name that model"
                )
            index = CandidateIndex.open(store, runtime.embedding_dim, runtime.revision)
            collection = cls(store, scorer, index)
            if not read_only:
                if index.saved_generation != index.generation:
                    collection._save()
                collection._renewal.consider()
        except BaseException:
            store.close()
            raise
        return collection

    @property
    def directory(self) -> Path:
        """Where the collection is."""
        return self.store.directory

    def close(self) -> None:
        """Write the index cache and let the next writer in. Nothing is lost without it; the next start takes longer.

        Waits for an index that is being made anew.
        """
        self._renewal.close()
        with self._writing:
            if not self.store.read_only and self.index.saved_generation != self.index.generation:
                self._save()
            self.store.close()

    def __enter__(self) -> Collection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self.store.count()

    def add(
        self,
        source: PictureSource,
        *,
        path: str | None = None,
        metadata: dict[str, Any] | None = None,
        keep_bytes: bool = False,
        dry_run: bool = False,
    ) -> Added:
        """Add one picture; it is on the disk when this returns. The same content again changes nothing.

        `path` says where it can be found again (by default the file it came from); with `keep_bytes` the file itself is
        kept. With `dry_run` all is checked alike and nothing is written. Raises PictureError, and ValueError for
        metadata that is not JSON.
        """
        facts = checked_metadata(metadata)
        name = path
        if path is None and isinstance(source, str | os.PathLike):
            name, path = os.fspath(source), full_path(source)
        content = receive(source, self.store, self.scorer, name=name, keep=keep_bytes)
        arrivals = [Arrival(content, path, facts)]
        return (foreseen(arrivals, set()) if dry_run else self.commit(arrivals))[0]

    def add_files(
        self,
        paths: Iterable[Path],
        *,
        on_error: Refusal | None = None,
        keep_bytes: bool = False,
        dry_run: bool = False,
    ) -> Iterator[Added]:
        """Add picture files in batches; what is yielded is on the disk. Memory stays bounded.

        A file that cannot be read is skipped and given to `on_error` (or logged). Stop at any time: what was yielded
        stays, and running it again takes up the rest. With `dry_run` all is checked alike and nothing is written.
        """
        met: set[str] = set()
        for batch in batches(map(Path, paths)):
            received = self.receive([(path, str(path)) for path in batch], keep_bytes=keep_bytes)
            arrivals = []
            for path, content in zip(batch, received, strict=True):
                if isinstance(content, PictureError):
                    (on_error or _log_refusal)(path, content)
                else:
                    arrivals.append(Arrival(content, full_path(path), {}))
            yield from foreseen(arrivals, met) if dry_run else self.commit(arrivals)

    def receive(self, pictures: Sequence[tuple[PictureSource, str | None]], *, keep_bytes: bool = False) -> Received:
        """Read and check pictures, (source, name for its error) each, and write nothing; `commit` adds them.

        Where one cannot be read, its error stands in its place.
        """
        return each(
            lambda picture: receive(picture[0], self.store, self.scorer, name=picture[1], keep=keep_bytes),
            pictures,
            self.scorer.runtime.threads,
        )

    def search(
        self,
        query: PictureSource,
        *,
        top: int = 10,
        candidates: int = 100,
        enough: float | None = None,
        filter: dict[str, Any] | None = None,
    ) -> SearchResult:
        """The `top` best of the collection: `candidates` by embedding, then re-ranked by the pair graph.

        With `enough` in (0, 1], an approximation: once `top` candidates, which are looked at in their first order, have
        that relevance, the others are not looked at. `filter` is a condition on metadata (see `filters`): there is
        nothing but the pictures that meet it. Raises PictureError for the query, ValueError for numbers out of their
        range and for what is no condition.
        """
        return stages.search(
            self.store,
            self.index,
            self.scorer,
            query,
            top=top,
            candidates=candidates,
            enough=enough,
            filter=None if filter is None else compiled(filter),
        )

    def get(self, id: str) -> Record:
        """What is remembered about a picture. Raises UnknownPictureError."""
        record = self.store.get(id)
        if record is None:
            raise self._unknown(id)
        return record

    def panel(self, id: str) -> tuple[np.ndarray, np.ndarray]:
        """Stored tokens float16 (N, M, d) and embedding float32 (e,); no file is read. Raises UnknownPictureError."""
        try:
            return self.panels([id])[id]
        except KeyError:
            raise self._unknown(id) from None

    def panels(self, ids: Sequence[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """What `panel` says of many, by id, in one reading; those that are not there are left out."""
        shape = self.scorer.runtime.token_shape
        return {
            id: (np.frombuffer(tokens, "<f2").reshape(shape), np.frombuffer(embedding, "<f4"))
            for id, (tokens, embedding) in self.store.panels(ids).items()
        }

    def content(self, id: str) -> tuple[bytes, str]:
        """(bytes, media type) of a picture's file, as it was when it was added.

        Raises UnknownPictureError if there is no such picture, or if its file was not kept and is gone or changed.
        """
        record = self.get(id)
        return original(self.store, record, self.scorer.limits), record.media_type

    def thumbnail(self, id: str, side: int = 256) -> bytes:
        """A JPEG whose longer side has at most `side` pixels. Raises UnknownPictureError like `content`."""
        if side < 1:
            raise ValueError(f"side must be at least 1, got {side}")
        data, _ = self.content(id)
        return self.scorer.decoder.run(partial(thumbnail, data, side, self.scorer.limits, name=id))

    def remove(self, id: str) -> bool:
        """Forget a picture (its file is left alone); no later search returns it. False if there was none."""
        return self.remove_all([id]) == 1

    def remove_all(self, ids: Sequence[str]) -> int:
        """Forget pictures like `remove`, all in one transaction; how many of them there were."""
        with self._writing:
            gone = self.store.remove(ids)
            self._follow()
        return sum(gone)

    def list(self, limit: int = 100, after: str | None = None, *, filter: dict[str, Any] | None = None) -> Records:
        """Up to `limit` records in the order they were added, beginning behind the id `after`.

        `filter` is a condition on metadata (see `filters`). Raises UnknownPictureError if there is no picture `after`,
        ValueError for what is no condition.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        if after is not None:
            self.get(after)
        return self.store.page(limit, after, compiled(filter or {}))

    def stats(self) -> dict[str, Any]:
        """Counts and sizes, the model and the state of the index, as JSON values."""
        runtime = self.scorer.runtime
        return {
            **self.store.stats(),
            "model": {"name": runtime.name, "revision": runtime.revision},
            "index": {
                "count": len(self.index),
                "dimension": self.index.dimension,
                "generation": self.index.generation,
                "saved_generation": self.index.saved_generation,
                **self.index.layout(),
            },
        }

    def verify(self) -> Verdict:
        """Check the database, every stored feature and the index cache; slow on purpose, and changes nothing."""
        return verify(self.store)

    def rebuild(
        self,
        *,
        everything: bool = False,
        index: Kind | None = None,
        on_error: Callable[[Record, Exception], None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> Rebuilt:
        """Embed damaged pictures anew (with `everything`: all of them) and make the index from the database alone.

        `index` is its kind from now on: "exact", "ivf" (approximate), or "auto", by the number of pictures.
        """
        with self._writing:
            report = reembed(self.store, self.scorer, everything=everything, on_error=on_error, on_progress=on_progress)
            if index is not None:
                self.store.set_index_kind(index)
            self.index.renew(self.store)
            self._save()
        return report

    def commit(self, arrivals: Sequence[Arrival]) -> Acknowledged:
        """Write pictures in one go and let the index follow; they are on the disk when this returns."""
        new = rows(arrivals, self.scorer)
        known = [
            (arrival.content.id, arrival.path, arrival.content.data)
            for arrival in arrivals
            if isinstance(arrival.content, Known)
        ]
        with self._writing:
            fresh = self.store.insert(new) if new else ()
            if known:
                self.store.complete(known)
            self._follow()
        first = {row.id for row, was_new in zip(new, fresh, strict=True) if was_new}
        added = []
        for arrival in arrivals:
            id = arrival.content.id
            added.append(Added(id, id in first))
            first.discard(id)
        return added

    def _follow(self) -> None:
        """Let the index take up what was just written; its cache is saved when enough has come together."""
        self.index.catch_up(self.store)
        if self.index.generation - self.index.saved_generation >= max(_SAVE_AFTER, len(self.index) // 8):
            self._save()
        self._renewal.consider()

    def _unknown(self, id: str) -> UnknownPictureError:
        return UnknownPictureError(f"the collection {self.directory} has no picture {id[:64]!r}")

    def _save(self) -> None:
        try:
            self.index.save(self.directory)
        except OSError as error:
            # Only time is lost: the database has everything, and the next start makes the cache again.
            logger.warning("%s: the index cache was not written: %s", self.directory, error.strerror)


def _log_refusal(path: Path, error: PictureError) -> None:
    logger.warning("skipped %s", error)
