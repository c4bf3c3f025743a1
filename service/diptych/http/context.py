"""The context that every route works with."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import Depends, Query
from fastapi import Request as HttpRequest
from fastapi.responses import StreamingResponse
from PIL import Image
from starlette.concurrency import run_in_threadpool

from diptych.collection.collection import Collection
from diptych.collection.registry import Collections
from diptych.dedupe.pair_cache import PairCache
from diptych.errors import CollectionNameError, DamagedCollectionError, UnknownCollectionError, UnknownPictureError
from diptych.http.bodies import read_body
from diptych.http.health import Health
from diptych.http.metrics import Metrics
from diptych.http.middleware.errors import RequestError
from diptych.http.pair_jobs import PairCaches, PairProgress, TimeIsUp
from diptych.http.request_pool import RequestPool
from diptych.http.schemas.pictures import Fetch, Picture, resolve_picture
from diptych.http.schemas.requests import COLLECTION, Asking, Request
from diptych.http.schemas.responses import ImageItem, PairsBegun
from diptych.http.settings import Settings
from diptych.pictures.content import content_id, make_thumbnail
from diptych.scoring.scorer import Original, Scorer
from diptych.store.records import Record
from diptych_runtime.decoder import open_picture
from diptych_runtime.errors import ArtifactError, DiptychError, PictureError
from diptych_runtime.runtime import Panels

Body = TypeVar("Body", bound=Request)
Found = TypeVar("Found")
Answer = TypeVar("Answer")

_FETCHES = 8  # at once for one request


@dataclass
class Context:
    """One service: its model, its collections with theirs, its limits and its threads."""

    scorer: Scorer
    collections: Collections
    settings: Settings
    work: RequestPool
    reads: RequestPool
    parsing: RequestPool
    metrics: Metrics
    started: int = field(default_factory=lambda: int(time.time()))
    pair_caches: PairCaches = field(default_factory=PairCaches)
    fetch: Fetch | None = None  # pictures behind web addresses, where that is allowed
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health(self.scorer, self.collections, self.settings.stuck_seconds, self.longest_running)

    async def read_request(
        self, request: HttpRequest, model: type[Body], *, form: bool = False, pictures: int | None = None
    ) -> Body:
        """Read and check the body of a request (`read_body`), and open its collection.

        It may have as many `pictures`, by default those that the settings allow, if it may be a form, and else none.
        """
        most = pictures or self.settings.pictures if form else 0
        body = await read_body(request, model, self.parsing, form=form, pictures=most)
        await self.open_collection(body.collection)
        self.check_request(body)
        return body

    def borrow_collection(self, name: str | None) -> AbstractContextManager[Collection]:
        """Borrow the collection that a request means; 501 if the service has none at all."""
        if self.collections.is_fixed and not self.collections.names():
            message = "This service has no collection; start it with `diptych serve --store DIR`."
            raise RequestError(501, "no_collection", message)
        return self.collections.borrow(name)

    async def open_collection(self, name: str | None) -> None:
        """Open the collection that a request means, if it is closed, beside the event loop."""
        if self.collections.is_closed(name):
            with suppress(DiptychError):  # who asks for it next is told what is wrong
                await run_in_threadpool(self.check_collection, name)

    def check_collection(self, name: str | None) -> None:
        """Raise the error of a collection that cannot be borrowed."""
        with self.borrow_collection(name):
            pass

    def longest_running(self) -> float:
        """Seconds since the longest-running computation began, in a request or behind it; 0.0 when none runs."""
        chunks = (one.scheduler.longest_running() for one in (self.scorer, *self.collections.scorers()))
        return max(self.work.longest_running(), self.reads.longest_running(), *chunks)

    def describe_answer(self, kind: str, request: HttpRequest, scorer: Scorer) -> dict[str, Any]:
        """The fields that all answers to a question have (`Asked`)."""
        runtime = scorer.runtime
        return {"id": f"{kind}-{request.state.request_id}", "model": runtime.name, "question": runtime.question}

    def link_picture(self, collection: Collection, id: str, part: str) -> str:
        """Link to the "content" or "thumbnail" of a stored picture."""
        path = f"/v1/images/{id}/{part}"
        return path if self.collections.is_fixed else f"{path}?collection={collection.directory.name}"

    def describe_image(self, collection: Collection, record: Record) -> ImageItem:
        """A stored picture as answers show it."""
        links = {part: self.link_picture(collection, record.id, part) for part in ("content", "thumbnail")}
        return ImageItem.model_validate(vars(record) | links)

    def scorer_of(self, collection: str | None) -> Scorer:
        """The scorer with the model and calibration of the collection that a request means, if it means one."""
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
        return self.scorer if own in (None, self.scorer.runtime.own) else self.scorer.with_calibration(own)

    def choose_scorer(self, body: Asking) -> Scorer:
        """Choose the scorer for a request's collection and question; 422 for one that it does not answer."""
        return choose_question(self.scorer_of(body.collection), body.question)

    def check_request(self, body: Request) -> None:
        """Refuse a question or a collection that is not here, and a model that does not serve the request."""
        if isinstance(body, Asking):
            self.choose_scorer(body)
        if body.collection is not None:
            self.check_collection(body.collection)
        served = self.scorer_of(body.collection).runtime.name
        if body.model not in (None, served):
            place = "" if body.collection is None else f" for the collection {body.collection}"
            message = f'The model "{body.model[:64]}" is not served here{place}; "{served}" is.'
            raise RequestError(404, "model_not_found", message, param="model")

    def picture_bytes(self, picture: Picture, position: str, collection: str | None) -> bytes:
        """The file behind a picture of a request; 422 with its position if there is none."""
        position, found = resolve_picture(picture, position, self.fetch)
        with refuse_errors(position):
            return self._read_file(found, collection)

    def _read_file(self, found: bytes | str, collection: str | None) -> bytes:
        """The file of a resolved picture. Raises UnknownPictureError for a stored one that is gone."""
        if isinstance(found, bytes):
            return found
        with self.borrow_collection(collection) as stored:
            return stored.content(found)[0]

    def decode_picture(self, picture: Picture, position: str, collection: str | None, side: int) -> Image.Image:
        """Decode a picture of a request, no side longer than `side`; 422 with its position if that fails."""
        data = self.picture_bytes(picture, position, collection)
        with refuse_errors(position):
            small = self.scorer.decoder.run(partial(make_thumbnail, data, side, self.scorer.limits, name=position))
        return open_picture(small)

    def load_panels(
        self, pictures: Sequence[tuple[str, Picture]], collection: str | None
    ) -> tuple[Panels, Original, list[str | None]]:
        """Load the tokens and embeddings of pictures, in order; those of pictures sent along are computed.

        Also returns a function that returns the file of a picture by its place, None where it is stored and not to be
        had; and the ids of their contents. A picture that cannot be read, or is not stored, is 422 with its position.
        """

        def resolve(named: tuple[str, Picture]) -> tuple[str, bytes | str]:
            return resolve_picture(named[1], named[0], self.fetch)

        if self.fetch is None:
            found = list(map(resolve, pictures))
        else:  # which is waiting
            with ThreadPoolExecutor(_FETCHES, thread_name_prefix="diptych-fetch") as pool:
                found = list(pool.map(resolve, pictures))

        def read_original(place: int) -> bytes | None:
            with suppress(UnknownPictureError):
                return self._read_file(found[place][1], collection)
            return None

        contents = [one if isinstance(one, str) else content_id(one) for _, one in found]
        return self._load_panels(found, collection), read_original, contents

    def _load_panels(self, found: Sequence[tuple[str, bytes | str]], collection: str | None) -> Panels:
        sent = [(place, position, data) for place, (position, data) in enumerate(found) if isinstance(data, bytes)]
        stored = [(place, position, id) for place, (position, id) in enumerate(found) if isinstance(id, str)]
        scorer = self.scorer_of(collection)
        runtime = scorer.runtime
        tokens = np.empty((len(found), *runtime.token_shape), np.float16)
        embeddings = np.empty((len(found), runtime.embedding_dim), np.float32)
        if stored:
            with self.borrow_collection(collection) as holder:
                kept = holder.panels([id for *_, id in stored])
                for place, position, id in stored:
                    if id not in kept:
                        with refuse_errors(position):
                            kept[id] = holder.panel(id)
                    tokens[place], embeddings[place] = kept[id]
        if sent:
            places, positions, files = (list(column) for column in zip(*sent, strict=True))
            with self.metrics.time_stage("decode"):
                pixels = []
                for position, decoded in zip(positions, scorer.decode(files, positions), strict=True):
                    if isinstance(decoded, PictureError):
                        raise refuse_picture(decoded, position)
                    pixels.append(decoded)
            with self.metrics.time_stage("panel"):
                tokens[places], embeddings[places] = scorer.encode_pixels(np.stack(pixels))
            self.metrics.count_items("pictures", len(sent))
        return Panels(tokens, embeddings)

    def score_logits(self, scorer: Scorer, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Score pairs as `Scorer.all_logits` does, timed and counted."""
        with self.metrics.time_stage("pair"):
            logits = scorer.all_logits(tokens_a, tokens_b)
        self.metrics.count_items("pairs", len(logits))
        return logits

    async def search_pairs(
        self,
        request: HttpRequest,
        body: Request,
        facts: Callable[[Collection], dict[str, Any]],
        search: Callable[[Collection, PairCache, PairProgress], Found],
        answer: Callable[[Collection, Found, dict[str, Any]], Answer],
    ) -> Answer | PairsBegun:
        """The answer to what a search over the pairs of a collection found, or how far that is when its time is up.

        The `facts` are fields that both have; they may refuse the request.
        """

        def run_search() -> Answer | PairsBegun:
            fields, progress = facts(collection), PairProgress(self.settings.seconds / 4)
            try:
                with self.pair_caches.open_cache(collection) as cache:
                    found = search(collection, cache, progress)
                self.pair_caches.views.clear()  # all looks are taken, and kept
                return answer(collection, found, fields | progress.to_fields())
            except TimeIsUp:
                return PairsBegun(**fields, **progress.to_fields())
            except UnknownPictureError as error:
                message = f"Pictures were removed meanwhile ({error}); ask again."
                raise RequestError(409, "collection_changed", message, param="collection") from None
            finally:
                self.metrics.count_items("pairs", progress.computed)
                self.metrics.add_stages(progress.to_timings())

        with self.borrow_collection(body.collection) as collection:
            async with self.pair_caches.wait_turn(collection, self.settings.seconds):
                return await self.work.run(run_search, request)

    async def stream_text(self, texts: Iterable[bytes | str], kind: str) -> StreamingResponse:
        """Stream texts while they are read from a store.

        A head line and the first text are read before the answer begins: after that nothing can be refused any more.
        """
        rest = iter(texts)
        first = await self.reads.run(lambda: list(islice(rest, 2)))
        return StreamingResponse(chain(first, rest), media_type=kind)


def choose_question(scorer: Scorer, question: str | None) -> Scorer:
    """The scorer for the question of a request; 422 for one that its model does not answer."""
    try:
        return scorer.asking(question)
    except ArtifactError as error:
        raise RequestError(422, "unknown_question", f"{error}.", param="question") from None


@contextmanager
def refuse_errors(position: str) -> Iterator[None]:
    """Turn errors of decoding and of unknown ids into a 422 that names the position."""
    try:
        yield
    except PictureError as error:
        raise refuse_picture(error, position) from error
    except UnknownPictureError as error:
        raise RequestError(422, "unknown_image", f"{position}: {error}", param=position) from None


def refuse_picture(error: PictureError, position: str) -> RequestError:
    """The decoder's refusal as one of the request: 422, at the position of the picture."""
    return RequestError(422, error.code, str(error), param=position)


async def _get_context(request: HttpRequest) -> Context:
    return request.app.state.context


CollectionQuery = Annotated[str | None, Query(description=COLLECTION)]


async def _open_collection(request: HttpRequest, collection: CollectionQuery = None) -> AsyncIterator[Collection]:
    context: Context = request.app.state.context
    await context.open_collection(collection)
    with context.borrow_collection(collection) as found:
        yield found  # until the whole answer is sent


async def _may_change(request: HttpRequest) -> None:
    key = request.state.key
    if key is not None and key.role != "admin":
        message = f'The key "{key.name}" may only read; adding and removing takes the key of an admin.'
        raise RequestError(403, "read_only_key", message)


async def _check_model(request: HttpRequest) -> None:
    request.app.state.context.health.check_model()


Here = Annotated[Context, Depends(_get_context)]
MayChange = Depends(_may_change)
Proven = Depends(_check_model)  # of every route that asks the model
Stored = Annotated[Collection, Depends(_open_collection)]
