"""What a route has at hand."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np
from fastapi import Depends, Request
from PIL import Image

from diptych.collection import Collection
from diptych.content import thumbnail
from diptych.errors import UnknownPictureError
from diptych.http.errors import RequestError
from diptych.http.metrics import Metrics
from diptych.http.references import Fetch, Picture, reference
from diptych.http.settings import Settings
from diptych.http.warmup import WarmUp
from diptych.http.work import Work
from diptych.scorer import Scorer
from diptych_export.errors import PictureError
from diptych_export.pictures import open_picture
from diptych_export.runtime import Panels

_FETCHES = 8  # at once for one request


@dataclass
class Context:
    """One service: its model, its collection if it has one, its limits and its threads."""

    scorer: Scorer
    stored: Collection | None
    settings: Settings
    work: Work
    reads: Work
    metrics: Metrics
    started: int = field(default_factory=lambda: int(time.time()))
    warm_up: WarmUp | None = None
    fetch: Fetch | None = None  # pictures behind web addresses, where that is allowed

    @property
    def collection(self) -> Collection:
        """The collection; 501 if the service has none."""
        if self.stored is None:
            message = "This service has no collection; start it with `diptych serve --store DIR`."
            raise RequestError(501, "no_collection", message)
        return self.stored

    @property
    def model(self) -> str:
        """The served model's name."""
        return self.scorer.runtime.name

    def check_model(self, asked: str | None) -> None:
        """Refuse a request that names another model than the one served."""
        if asked not in (None, self.model):
            message = f'The model "{asked}" is not served here; "{self.model}" is.'
            raise RequestError(404, "model_not_found", message, param="model")

    def picture_bytes(self, picture: Picture, position: str) -> bytes:
        """The file behind a picture of a request; 422 with its position if there is none."""
        position, found = reference(picture, position, self.fetch)
        if isinstance(found, bytes):
            return found
        with known(position):
            return self.collection.content(found)[0]

    def picture(self, picture: Picture, position: str, side: int) -> Image.Image:
        """A picture of a request, no side longer than `side`; 422 with its position if it cannot be decoded."""
        data = self.picture_bytes(picture, position)
        with positioned(position):
            small = self.scorer.decoder.run(partial(thumbnail, data, side, self.scorer.limits, name=position))
        return open_picture(small)

    def panels(self, pictures: Sequence[tuple[str, Picture]]) -> Panels:
        """Tokens and embeddings of pictures, in order: of stored ones as they are stored, of those sent along computed.

        A picture that cannot be read, or is not stored, is 422 with its position.
        """
        found = self._found(pictures)
        sent = [(place, position, data) for place, (position, data) in enumerate(found) if isinstance(data, bytes)]
        stored = [(place, position, id) for place, (position, id) in enumerate(found) if isinstance(id, str)]
        runtime = self.scorer.runtime
        tokens = np.empty((len(found), *runtime.token_shape), np.float16)
        embeddings = np.empty((len(found), runtime.embedding_dim), np.float32)
        for place, position, id in stored:
            with known(position):
                tokens[place], embeddings[place] = self.collection.panel(id)
        if sent:
            places = [place for place, _, _ in sent]
            with self.metrics.timed("decode"):
                pixels = self._pixels(sent)
            with self.metrics.timed("panel"):
                tokens[places], embeddings[places] = self.scorer.encode_pixels(pixels)
            self.metrics.done("pictures", len(sent))
        return Panels(tokens, embeddings)

    def logits(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """What `Scorer.logits` says, timed and counted."""
        with self.metrics.timed("pair"):
            logits = self.scorer.logits(tokens_a, tokens_b)
        self.metrics.done("pairs", len(logits))
        return logits

    def _found(self, pictures: Sequence[tuple[str, Picture]]) -> list[tuple[str, bytes | str]]:
        if self.fetch is None:
            return [reference(picture, position) for position, picture in pictures]
        # Fetching is waiting.
        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="diptych-fetch") as pool:
            return list(pool.map(lambda named: reference(named[1], named[0], self.fetch), pictures))

    def _pixels(self, sent: Sequence[tuple[int, str, bytes]]) -> np.ndarray:
        """Pictures as the network sees them, uint8 (B, S, S, 3); a bad one is 422 with the decoder's words."""
        decoded = self.scorer.decode([data for *_, data in sent], [position for _, position, _ in sent])
        for (_, position, _), pixels in zip(sent, decoded, strict=True):
            if isinstance(pixels, PictureError):
                raise _refused(pixels, position)
        return np.stack([pixels for pixels in decoded if not isinstance(pixels, PictureError)])


@contextmanager
def known(position: str) -> Iterator[None]:
    """Turns the collection's "no such picture" into a refusal that carries the position in the request."""
    try:
        yield
    except UnknownPictureError as error:
        raise RequestError(422, "unknown_image", f"{position}: {error}", param=position) from None


@contextmanager
def positioned(position: str) -> Iterator[None]:
    """Turns the decoder's refusal into one that carries the position of the picture in the request."""
    try:
        yield
    except PictureError as error:
        raise _refused(error, position) from error


def _refused(error: PictureError, position: str) -> RequestError:
    return RequestError(422, error.code, str(error), param=position)


def _context(request: Request) -> Context:
    return request.app.state.context


def _request_id(request: Request) -> str:
    return request.state.request_id


def _may_change(request: Request) -> None:
    key = request.state.key
    if key is not None and key.role != "admin":
        message = f'The key "{key.name}" may only read; adding and removing pictures takes the key of an admin.'
        raise RequestError(403, "read_only_key", message)


Here = Annotated[Context, Depends(_context)]
MayChange = Depends(_may_change)
RequestId = Annotated[str, Depends(_request_id)]
