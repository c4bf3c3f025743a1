"""The embedder of stored pictures in a rebuild. A store knows no model: the caller of a rebuild brings one along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from diptych.store.originals import Keeper
from diptych.store.records import Record
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime

BATCH = 64  # pictures at a time

OnFailure = Callable[[Record, Exception], None]
OnProgress = Callable[[int], None]
MayDrop = Callable[[Record], bool]  # of a picture that cannot be read any more


class Embedder(Protocol):
    """Pictures to features of the model in `runtime`."""

    @property
    def runtime(self) -> Runtime:
        """The model, whose revision and sizes the features have."""
        ...

    def __call__(self, store: Keeper, records: Sequence[Record], /) -> list[tuple[bytes, bytes] | PictureError]:
        """(embedding, tokens) of each picture, as they are stored (`NewPicture`); where its file is gone or unreadable,
        the error stands in their place.
        """
        ...
