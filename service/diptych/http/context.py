"""The context that every route works with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated
from weakref import WeakKeyDictionary, finalize

import numpy as np
from fastapi import Depends, Query, Request
from PIL import Image
from starlette.concurrency import run_in_threadpool

from diptych.collection.collection import Collection
from diptych.collection.registry import Collections
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.errors import (
    CollectionNameError,
    DamagedCollectionError,
    DeadlineError,
    UnknownCollectionError,
    UnknownPictureError,
)
from diptych.http.metrics import Metrics
from diptych.http.middleware.errors import RequestError
from diptych.http.probe import Probe
from diptych.http.request_pool import RequestPool
from diptych.http.schemas.images import Fetch, Picture, Upload, reference
from diptych.http.schemas.requests import Asking
from diptych.http.schemas.requests import Request as Asked
from diptych.http.settings import Settings
from diptych.http.warmup import WarmUp
from diptych.pictures.content import content_id, thumbnail
from diptych.scoring.scorer import Original, Scorer
from diptych.scoring.view_cache import ViewCache
from diptych_runtime.decoder import open_picture
from diptych_runtime.errors import ArtifactError, DiptychError, PictureError
from diptych_runtime.runtime import Panels


class PairCaches:
    """One ledger a collection: beside it on the disk, or, where that may not be written, in memory.

    The `views` of pictures are those of all collections, and held while there are closer looks to be taken.

    One request at a time searches a collection: two would score the same pairs.
    """

    def __init__(self) -> None:
        self._turns: WeakKeyDictionary[Collection, asyncio.Lock] = WeakKeyDictionary()
        self._memory: WeakKeyDictionary[Collection, PairCache] = WeakKeyDictionary()
        self.views = ViewCache()

    @asynccontextmanager
    async def turn(self, collection: Collection, seconds: float) -> AsyncIterator[None]:
        """Wait, without a thread, for the turn to search the collection. Raises DeadlineError."""
        lock = self._turns.setdefault(collection, asyncio.Lock())
        try:
            await asyncio.wait_for(lock.acquire(), seconds)
        except TimeoutError:
            raise DeadlineError(
                f"others searched the collection for duplicates for more than {seconds:g} s; try again later"
            ) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def of(self, collection: Collection) -> Iterator[PairCache]:
        """The ledger of a collection, for whose turn it is. Raises DedupeError."""
        revision = collection.scorer.runtime.scores_revision
        folder = collection.backend.folder
        if folder is not None and not collection.backend.read_only:
            with PairCache(folder / LEDGER, revision) as ledger:
                yield ledger
            return
        if collection not in self._memory:
            ledger = self._memory[collection] = PairCache(None, revision)
            finalize(collection, ledger.close)
        yield self._memory[collection]


_FETCHES = 8  # at once for one request


@dataclass
class Context:
    """One service: its model, its collections if it has any, which may have models of their own, its limits and its
    threads.
    """

    scorer: Scorer
    collections: Collections
    settings: Settings
    work: RequestPool
    reads: RequestPool
    metrics: Metrics
    started: int = field(default_factory=lambda: int(time.time()))
    warm_up: WarmUp | None = None
    ledgers: PairCaches = field(default_factory=PairCaches)
    fetch: Fetch | None = None  # pictures behind web addresses, where that is allowed
    parsing: RequestPool = field(default_factory=lambda: RequestPool(workers=2, waiting=1024))
    probe: Probe = field(init=False)

    def __post_init__(self) -> None:
        self.probe = Probe(self.scorer)

    def borrow(self, name: str | None) -> AbstractContextManager[Collection]:
        """The collection that a request means, for as long as it needs it; 501 if the service has none at all."""
        if self.collections.fixed and not self.collections.names():
            message = "This service has no collection; start it with `diptych serve --store DIR`."
            raise RequestError(501, "no_collection", message)
        return self.collections.borrow(name)

    async def open(self, name: str | None) -> None:
        """Open the collection that a request means, if it is closed, beside the event loop."""
        if self.collections.is_closed(name):
            await run_in_threadpool(self._touch, name)

    def _touch(self, name: str | None) -> None:
        with suppress(DiptychError), self.collections.borrow(name):  # whoever asks for it next is told what is wrong
            pass

    def longest_running(self) -> float:
        """Seconds since the longest-running computation began, in a request or behind it; 0.0 when none runs."""
        chunks = (one.scheduler.longest_running() for one in (self.scorer, *self.collections.scorers()))
        return max(self.work.longest_running(), self.reads.longest_running(), *chunks)

    def link(self, collection: Collection, id: str, part: str) -> str:
        """The link to the "content" or "thumbnail" of a stored picture."""
        path = f"/v1/images/{id}/{part}"
        return path if self.collections.fixed else f"{path}?collection={collection.directory.name}"

    def scorer_of(self, collection: str | None) -> Scorer:
        """The scorer with the model and the calibration of the collection that a request means, if that has its own.

        A request that names no collection need not mean one.
        """
        try:
            with self.collections.borrow(collection) as stored:
                theirs = stored.scorer
        except (CollectionNameError, DamagedCollectionError, UnknownCollectionError):
            if collection is not None:
                raise
            return self.scorer
        if theirs.runtime.revision != self.scorer.runtime.revision:
            return theirs
        own = theirs.runtime.own
        return self.scorer if own in (None, self.scorer.runtime.own) else self.scorer.calibrated(own)

    def asking(self, question: str | None, collection: str | None = None) -> Scorer:
        """The scorer for the question of a request, and for the collection that it means (`scorer_of`); 422 for a
        question that the model does not answer.
        """
        return asked(self.scorer_of(collection), question)

    def check(self, body: Asked) -> None:
        """Refuse a request that names a collection that is not here, another model than the one that serves it, or a
        question that this does not answer.
        """
        if isinstance(body, Asking):
            self.asking(body.question, body.collection)
        if body.collection is not None:
            with self.borrow(body.collection):
                pass
        if body.model not in (None, served := self.scorer_of(body.collection).runtime.name):
            elsewhere = body.model in {one.runtime.name for one in self.collections.scorers()}
            where = "to requests that name no collection" if elsewhere else "here"
            where = where if body.collection is None else f"for the collection {body.collection}"
            message = f'The model "{str(body.model)[:64]}" is not served {where}; "{served}" is.'
            raise RequestError(404, "model_not_found", message, param="model")

    def picture_bytes(self, picture: Picture | Upload, position: str, collection: str | None) -> bytes:
        """The file behind a picture of a request; 422 with its position if there is none."""
        position, found = reference(picture, position, self.fetch)
        if isinstance(found, bytes):
            return found
        with self.borrow(collection) as stored, known(position):
            return stored.content(found)[0]

    def picture(self, picture: Picture | Upload, position: str, collection: str | None, side: int) -> Image.Image:
        """A picture of a request, no side longer than `side`; 422 with its position if it cannot be decoded."""
        data = self.picture_bytes(picture, position, collection)
        with positioned(position):
            small = self.scorer.decoder.run(partial(thumbnail, data, side, self.scorer.limits, name=position))
        return open_picture(small)

    def panels(self, pictures: Sequence[tuple[str, Picture | Upload]], collection: str | None) -> Panels:
        """Tokens and embeddings of pictures, in order: of stored ones as they are in the collection of this name, of
        those sent along computed.

        A picture that cannot be read, or is not stored, is 422 with its position.
        """
        return self.panels_and_originals(pictures, collection)[0]

    def panels_and_originals(
        self, pictures: Sequence[tuple[str, Picture | Upload]], collection: str | None
    ) -> tuple[Panels, Original, list[str | None]]:
        """`panels`, a function that returns the file of a picture by its place, None where it is stored and not to be
        had, and the ids of their contents.
        """
        found = self._found(pictures)
        contents = [one if isinstance(one, str) else content_id(one) for _, one in found]
        return self._panels(found, collection), lambda place: self._original(found[place][1], collection), contents

    def _original(self, found: bytes | str, collection: str | None) -> bytes | None:
        if isinstance(found, bytes):
            return found
        try:
            with self.borrow(collection) as holder:
                return holder.content(found)[0]
        except UnknownPictureError:
            return None

    def _panels(self, found: Sequence[tuple[str, bytes | str]], collection: str | None) -> Panels:
        sent = [(place, position, data) for place, (position, data) in enumerate(found) if isinstance(data, bytes)]
        stored = [(place, position, id) for place, (position, id) in enumerate(found) if isinstance(id, str)]
        scorer = self.scorer_of(collection)
        runtime = scorer.runtime
        tokens = np.empty((len(found), *runtime.token_shape), np.float16)
        embeddings = np.empty((len(found), runtime.embedding_dim), np.float32)
        if stored:
            with self.borrow(collection) as holder:
                kept = holder.panels([id for *_, id in stored])
                for place, position, id in stored:
                    if id not in kept:
                        with known(position):
                            kept[id] = holder.panel(id)
                    tokens[place], embeddings[place] = kept[id]
        if sent:
            places = [place for place, _, _ in sent]
            with self.metrics.timed("decode"):
                pixels = _pixels(scorer, sent)
            with self.metrics.timed("panel"):
                tokens[places], embeddings[places] = scorer.encode_pixels(pixels)
            self.metrics.done("pictures", len(sent))
        return Panels(tokens, embeddings)

    def logits(self, scorer: Scorer, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """The result of `Scorer.all_logits`, timed and counted."""
        with self.metrics.timed("pair"):
            logits = scorer.all_logits(tokens_a, tokens_b)
        self.metrics.done("pairs", len(logits))
        return logits

    def _found(self, pictures: Sequence[tuple[str, Picture | Upload]]) -> list[tuple[str, bytes | str]]:
        if self.fetch is None:
            return [reference(picture, position) for position, picture in pictures]
        # Fetching is waiting.
        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="diptych-fetch") as pool:
            return list(pool.map(lambda named: reference(named[1], named[0], self.fetch), pictures))


def asked(scorer: Scorer, question: str | None) -> Scorer:
    """The scorer for the question of a request; 422 for one that its model does not answer."""
    try:
        return scorer.asking(question)
    except ArtifactError as error:
        raise RequestError(422, "unknown_question", f"{error}.", param="question") from None


@contextmanager
def known(position: str) -> Iterator[None]:
    """Turns the collection's "no such picture" into a refusal that carries the position in the request."""
    try:
        yield
    except UnknownPictureError as error:
        raise RequestError(422, "unknown_image", f"{position}: {error}", param=position) from None


@contextmanager
def positioned(position: str) -> Iterator[None]:
    """Turn the decoder's refusal into an error with the position of the picture in the request."""
    try:
        yield
    except PictureError as error:
        raise refused(error, position) from error


def refused(error: PictureError, position: str) -> RequestError:
    """The decoder's refusal as one of the request: 422, at the position of the picture."""
    return RequestError(422, error.code, str(error), param=position)


def _pixels(scorer: Scorer, sent: Sequence[tuple[int, str, bytes]]) -> np.ndarray:
    """Pictures as the network sees them, uint8 (B, S, S, 3); a bad one is 422 with the decoder's words."""
    decoded = scorer.decode([data for *_, data in sent], [position for _, position, _ in sent])
    for (_, position, _), pixels in zip(sent, decoded, strict=True):
        if isinstance(pixels, PictureError):
            raise refused(pixels, position)
    return np.stack([pixels for pixels in decoded if not isinstance(pixels, PictureError)])


async def _context(request: Request) -> Context:
    return request.app.state.context


async def _stored(
    request: Request,
    collection: Annotated[
        str | None,
        Query(description="The collection that is meant; by default the only one, or else that called `default`."),
    ] = None,
) -> AsyncIterator[Collection]:
    context: Context = request.app.state.context
    await context.open(collection)
    with context.borrow(collection) as found:
        yield found  # until the whole answer is sent


async def _request_id(request: Request) -> str:
    return request.state.request_id


async def _may_change(request: Request) -> None:
    key = request.state.key
    if key is not None and key.role != "admin":
        message = f'The key "{key.name}" may only read; adding and removing takes the key of an admin.'
        raise RequestError(403, "read_only_key", message)


Here = Annotated[Context, Depends(_context)]
MayChange = Depends(_may_change)
Stored = Annotated[Collection, Depends(_stored)]
RequestId = Annotated[str, Depends(_request_id)]
