"""`Collection`: a place that remembers pictures and finds those that show the same thing."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from diptych.collection.ingest import (
    Added,
    AlreadyStored,
    Incoming,
    S,
    checked_metadata,
    make_batches,
    name_of,
    path_of,
    read_new,
    simulate_commit,
    stamp_of,
    to_rows,
)
from diptych.collection.rebuild import embed_stored
from diptych.collection.search import SearchResult, search_backend
from diptych.console import Console
from diptych.errors import StoreError, UnknownPictureError
from diptych.pictures.content import Content, make_thumbnail, media_type
from diptych.scoring.inputs import files_below, is_picture, list_sources
from diptych.scoring.scorer import Scorer
from diptych.scoring.threads import map_pictures
from diptych.store.location import Location
from diptych.store.open import Backend, open_searchable
from diptych.store.originals import read_original
from diptych.store.rebuild import OnFailure, OnProgress, Rebuild, RebuildReport
from diptych.store.records import Answer, Label, NewLabel, Record, VerifyReport
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.candidates import CandidateIndex
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import ArgumentError, PictureError
from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration
from diptych_runtime.paths import shell_word

Records = list[Record]
Labels = list[Label]
Acknowledged = list[Added]
Received = list[Content | AlreadyStored | PictureError]

_PAGE = 4096

logger = logging.getLogger(__name__)


class Collection:
    """Pictures and their features in a folder or on a Milvus server; may be used from several threads at once.

    >>> with Collection.open("store", Scorer.load(), create=True) as collection:
    ...     collection.add("cat.jpg")
    ...     collection.search("cat-cropped.jpg").matches
    """

    def __init__(self, backend: Backend, scorer: Scorer) -> None:
        """Prefer `Collection.open`; both must belong together."""
        self.backend = backend
        self.scorer = scorer

    @classmethod
    def open(cls, where: Location, scorer: Scorer, *, create: bool = False, read_only: bool = False) -> Collection:
        """Open the collection in a folder, or at an address like `milvus://host:19530/photos`.

        Where a folder has a `calibration.json` (`diptych calibrate`), its `scorer` is the given one with that laid
        over, unless that one has a calibration of its own already.

        One process may write to a folder, others may open it with `read_only=True` at the same time; a damaged or stale
        index cache is repaired on the way. On Milvus all may write. Raises StoreError, ModelMismatchError if its
        pictures were embedded by another model, and ArgumentError for an address that is none.
        """
        backend = open_searchable(where, scorer.runtime, create=create, read_only=read_only)
        try:
            return cls(backend, with_own_calibration(scorer, backend.folder))
        except BaseException:
            backend.close()
            raise

    @property
    def name(self) -> str:
        """The location of the collection, as `--store` takes it."""
        return self.backend.name

    @property
    def store(self) -> SqliteBackend:
        """The store of a collection in a folder. Raises StoreError for one elsewhere."""
        if not isinstance(self.backend, SqliteBackend):
            raise StoreError(f"the collection {self.name} is not in a folder of this machine")
        return self.backend

    @property
    def index(self) -> CandidateIndex:
        """The candidate index of a collection in a folder. Raises StoreError for one elsewhere."""
        return self.store.index

    @property
    def directory(self) -> Path:
        """The folder of a collection in a folder. Raises StoreError for one elsewhere."""
        return self.store.directory

    def close(self) -> None:
        """Write the index cache of a folder, which saves the next start time, and let the next writer in."""
        self.backend.close()

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.backend.count()

    def add(
        self,
        pictures: PictureSource | Iterable[PictureSource],
        *,
        path: str | None = None,
        metadata: dict[str, Any] | None = None,
        keep_originals: bool = False,
        dry_run: bool = False,
        on_error: Callable[[Any, PictureError], object] | None = None,
        show_progress_bar: bool = False,
    ) -> list[Added]:
        """Add a picture, the picture files below a folder, or any number of both; they are on the disk when this
        returns, and there is an `Added` for each, in order.

        >>> collection.add("photos")
        >>> collection.add(["cat.jpg", "more photos", image], metadata={"from": "2026"})

        Content that is there already is not decoded again. `path` says where one picture can be found again (by default
        the file or the web address it came from). `metadata` is kept with each, in place of what a picture has that is
        there already; without it, that stays. With `keep_originals` the files are kept too. With `dry_run` all is
        checked alike and nothing is written. A picture that is named and cannot be read raises PictureError, and those
        of earlier batches of 64 stay; a file below a folder is logged and skipped. With `on_error` both go to it, with
        the error. Raises ArgumentError for metadata that is not JSON.
        """
        if path is not None and not is_picture(pictures):
            raise ArgumentError("`path` says where one picture can be found again; leave it out for several")
        facts = None if metadata is None else checked_metadata(metadata)
        below: set[Path] = set()  # what nobody named

        def refuse(source: PictureSource, error: PictureError) -> None:
            if on_error is not None:
                on_error(source, error)
            elif isinstance(source, Path) and source in below:
                logger.warning("skipped %s", error)
            else:
                raise error

        def unread(name: str, reason: str) -> None:
            below.add(Path(name))
            refuse(Path(name), PictureError(reason))

        sources: list[PictureSource] = []
        for source in list_sources(pictures):
            if path is None and isinstance(source, str | os.PathLike) and Path(source).is_dir():
                try:
                    files = files_below(source, unread)
                except PictureError as error:
                    refuse(source, error)
                else:
                    below.update(files)
                    sources += files
            else:
                sources.append(source)
        adding = self.add_in_batches(
            sources, on_error=refuse, path=path, metadata=facts, keep_originals=keep_originals, dry_run=dry_run
        )
        return list(Console(quiet=not show_progress_bar).progress(adding, total=len(sources), unit="picture"))

    def add_in_batches(
        self,
        sources: Iterable[S],
        *,
        on_error: Callable[[S, PictureError], object],
        path: str | None = None,
        metadata: dict[str, Any] | None = None,
        by_path: Mapping[str, dict[str, Any]] = MappingProxyType({}),
        keep_originals: bool = False,
        dry_run: bool = False,
    ) -> Iterator[Added]:
        """Add pictures in batches, each of which is on the disk before its results are yielded. Memory stays bounded.

        A picture that cannot be read is skipped and given to `on_error`. Stop at any time: what was yielded stays, and
        running it again takes up the rest. With `dry_run` all is checked alike and nothing is written. `path` and
        `metadata` are kept with each, and with some more by their paths; without a path, the file or the web address it
        came from. Metadata replace those of a picture that is there already.
        """
        met: set[str] = set()
        for batch in make_batches(sources):
            stamps = [None if path is not None else stamp_of(source) for source in batch]
            received = self.read_new(
                [(source, path or name_of(source)) for source in batch], keep_originals=keep_originals
            )
            arrivals = []
            for source, content, stamp in zip(batch, received, stamps, strict=True):
                if isinstance(content, PictureError):
                    on_error(source, content)
                else:
                    place = path or path_of(source)
                    own = None if place is None else by_path.get(place)
                    given = metadata is not None or own is not None
                    arrivals.append(Incoming(content, place, (metadata or {}) | (own or {}), given, stamp))
            yield from simulate_commit(arrivals, met) if dry_run else self.commit(arrivals)

    def read_new(
        self, pictures: Sequence[tuple[PictureSource, str | None]], *, keep_originals: bool = False
    ) -> Received:
        """Read and check pictures, (source, name for its error) each, and write nothing; `commit` adds them.

        Where one cannot be read, its error stands in its place. Raises NoOriginalsError if their bytes cannot be kept.
        """
        if keep_originals:
            self.backend.check_keeping()
        known_ids = self.backend.known_ids

        def read(picture: tuple[PictureSource, str | None]) -> Content | AlreadyStored:
            return read_new(picture[0], known_ids, self.scorer, name=picture[1], keep=keep_originals)

        return map_pictures(read, pictures, self.scorer.runtime.threads)

    def search(
        self,
        query: PictureSource,
        *,
        top: int = 10,
        candidates: int = 100,
        early_stop: float | None = None,
        filter: dict[str, Any] | None = None,
        question: str | None = None,
    ) -> SearchResult:
        """The `top` best of the collection: `candidates` by embedding, then re-ranked by the pair graph.

        With `early_stop` in (0, 1] re-ranking stops as soon as `top` candidates, in their first-stage order, reach that
        relevance. This is an approximation: a later one might score higher. `filter` is a condition on metadata (see
        `filters`): there is nothing but the pictures that meet it. `question` is asked in place of the scorer's own.
        Raises PictureError for the query, ArgumentError for numbers out of their range and for what is no condition,
        and what `asking` does.
        """
        asked = self.scorer.asking(question)
        return search_backend(self.backend, asked, query, top, candidates, early_stop, filter)

    def get(self, id: str) -> Record:
        """The record of a stored picture. Raises UnknownPictureError."""
        record = self.backend.get(id)
        if record is None:
            raise self._unknown_picture(id)
        return record

    def panel(self, id: str) -> tuple[np.ndarray, np.ndarray]:
        """Stored tokens float16 (N, M, d) and embedding float32 (e,); no file is read. Raises UnknownPictureError."""
        try:
            return self.panels([id])[id]
        except KeyError:
            raise self._unknown_picture(id) from None

    def panels(self, ids: Sequence[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The features of many pictures, as `panel` returns them, by id, in one reading; unknown ids are left out."""
        found = self.backend.panels(ids)
        unpacked = self.scorer.runtime.codec.unpack_tokens([tokens for tokens, _ in found.values()])
        return {
            id: (tokens, np.frombuffer(embedding, "<f4"))
            for tokens, (id, (_, embedding)) in zip(unpacked, found.items(), strict=True)
        }

    def content(self, id: str) -> tuple[bytes, str]:
        """(bytes, media type) of a picture's file as it was added. Raises UnknownPictureError without that."""
        data = read_original(self.backend, self.get(id), self.scorer.limits)
        return data, media_type(data)  # not what the store says, which may be a stranger's: a page, for one

    def thumbnail(self, id: str, side: int = 256) -> bytes:
        """A JPEG whose longer side has at most `side` pixels. Raises UnknownPictureError like `content`."""
        if side < 1:
            raise ArgumentError(f"side must be at least 1, got {side}")
        data, _ = self.content(id)
        return self.scorer.decoder.run(partial(make_thumbnail, data, side, self.scorer.limits, name=id))

    def remove(self, id: str) -> bool:
        """Forget a picture (its file is left alone); no later search returns it. False if there was none."""
        return self.backend.remove([id])[0]

    def list(self, limit: int = 100, after: str | None = None, *, filter: dict[str, Any] | None = None) -> Records:
        """Up to `limit` records in the order they were added, beginning behind the id `after`.

        `filter` is a condition on metadata (see `filters`). Raises UnknownPictureError if there is no picture `after`,
        ArgumentError for what is no condition.
        """
        if limit < 1:
            raise ArgumentError(f"limit must be at least 1, got {limit}")
        if after is not None:
            self.get(after)
        return self.backend.page(limit, after, filter)

    def label(self, a: str, b: str, answer: Answer, *, question: str = COPY) -> None:
        """Keep a person's answer about two stored pictures, by id: *same*, *different* or *cannot tell*.

        It stands in place of an earlier answer, and stays when a picture is removed, for when it is added again. Raises
        UnknownPictureError, ArgumentError for another answer and for a picture with itself, what `asking` does, and
        StoreError for a collection that is not in a folder.
        """
        self.scorer.asking(question)
        for id in (a, b):
            self.get(id)
        self.store.add_labels([NewLabel(a, b, question, answer)])

    def take_back_label(self, a: str, b: str, *, question: str = COPY) -> bool:
        """Forget the latest answer about two pictures; an earlier one stands again. False if there was none."""
        return self.store.take_back_label(a, b, question)

    def labels(self, question: str | None = None) -> Labels:
        """The answers that people gave, to one question or to any, in order. Raises StoreError outside a folder."""
        return self.store.labels(question)

    def stats(self) -> dict[str, Any]:
        """Counts and sizes, the model and the state of the index, as JSON values."""
        runtime = self.scorer.runtime
        return {
            **self.backend.stats(),
            "model": {"name": runtime.name, "revision": runtime.revision},
            "index": self.backend.index_facts(),
        }

    def verify(self) -> VerifyReport:
        """Check every record, every stored feature and the index; slow on purpose, and changes nothing."""
        return self.backend.verify()

    def rebuild(
        self,
        *,
        everything: bool = False,
        on_error: OnFailure | None = None,
        on_progress: OnProgress | None = None,
    ) -> RebuildReport:
        """Embed damaged pictures anew (with `everything`: all of them) and make the index from what is stored alone."""
        embed = partial(embed_stored, self.scorer)
        return self.backend.rebuild(Rebuild(self.scorer.runtime, embed, everything, None, on_error, on_progress))

    def commit(self, arrivals: Sequence[Incoming]) -> Acknowledged:
        """Write pictures in one go and let the index follow; they are on the disk when this returns.

        Of pictures that are there already, missing paths and bytes are filled in, and metadata that was given replaced.
        """
        new = to_rows(arrivals, self.scorer)
        known = [
            (arrival.content.id, arrival.path, arrival.content.data)
            for arrival in arrivals
            if isinstance(arrival.content, AlreadyStored)
        ]
        fresh = self.backend.insert(new) if new else ()
        if known:
            self.backend.complete(known)
        created = {row.id for row, was_new in zip(new, fresh, strict=True) if was_new}
        first = set(created)
        added, given = [], []
        for arrival in arrivals:
            id = arrival.content.id
            added.append(Added.of(arrival, created=id in first))
            if arrival.given and id not in first:
                given.append((id, arrival.metadata))
            first.discard(id)
        if given:
            self.backend.replace_metadata(given)
        read = [(one.content.id, one.path, one.stamp) for one in arrivals if one.content.id not in created]
        if seen := [(id, path, stamp) for id, path, stamp in read if path is not None and stamp is not None]:
            self.backend.note_stamps(seen)
        return added

    def embeddings(self, ids: Sequence[str] | None = None) -> tuple[list[str], np.ndarray]:
        """Ids and stored unit embeddings float32 (n, e) of these pictures, by default of all; no file is read.

        >>> ids, vectors = collection.embeddings()

        Raises UnknownPictureError if one is not there, StoreError if one is damaged.
        """
        if ids is None:
            ids = [record.id for page in self.backend.pages(_PAGE) for record in page]
        place = {id: number for number, id in enumerate(dict.fromkeys(ids))}
        missing, vectors = dict(place), np.empty((len(place), self.scorer.runtime.embedding_dim), np.float32)
        for start in range(0, len(ids), _PAGE):
            for id, embedding in self.backend.embeddings_of(ids[start : start + _PAGE]).items():
                vectors[place[id]] = np.frombuffer(embedding, "<f4")
                missing.pop(id, None)
        if missing:
            raise UnknownPictureError(
                f"{len(missing):,} of the pictures are not in the collection, {next(iter(missing))} for one; add them"
            )
        return list(ids), vectors if len(place) == len(ids) else vectors[[place[id] for id in ids]]

    def _unknown_picture(self, id: str) -> UnknownPictureError:
        # Without the collection's name: the paths of a server are nobody's business.
        return UnknownPictureError(f"the collection has no picture {id[:64]!r}")


def with_own_calibration(scorer: Scorer, folder: Path | None) -> Scorer:
    """The scorer with the calibration in a collection's folder over it, unless it has one of its own already.

    One that was made over another model is left out, with a warning. Raises ArtifactError for a damaged one.
    """
    if folder is None or scorer.runtime.own is not None or (own := OwnCalibration.load_beside(folder)) is None:
        return scorer
    if own.fits(scorer.runtime.released):
        return scorer.with_calibration(own)
    logger.warning(
        "%s was made over another model or calibration (%s %s) than this (%s %s) and is left out; "
        "make it again with `diptych calibrate --store %s`",
        *(folder / CALIBRATION, own.model, own.revision),
        *(scorer.runtime.name, scorer.runtime.revision, shell_word(folder)),
    )
    return scorer
