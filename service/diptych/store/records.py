"""The record of a picture in a collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Answer = Literal["same", "different", "cannot tell"]

ANSWERS: tuple[Answer, ...] = get_args(Answer)


@dataclass(frozen=True)
class Record:
    """A stored picture without its pixels: `width` x `height` upright, `added` as ISO time (UTC)."""

    id: str
    path: str | None
    metadata: dict[str, Any]
    width: int
    height: int
    original_kept: bool
    added: str
    media_type: str
    sha256: str
    revision: str


@dataclass(frozen=True)
class NewPicture:
    """A row to be: `embedding` float32 as little-endian bytes, `tokens` as a `TokenCodec` packs them, `data` only if it
    is to be kept.
    """

    id: str
    sha256: str
    path: str | None
    media_type: str
    width: int
    height: int
    metadata: dict[str, Any]
    revision: str
    embedding: bytes
    tokens: bytes
    data: bytes | None


@dataclass(frozen=True)
class Change:
    """One step of the journal: `embedding` is the row's present one, empty if damaged, or None if the row is gone."""

    sequence: int
    row: int
    embedding: bytes | None


@dataclass(frozen=True)
class Label:
    """The answer that a person gave about the pictures `a` and `b`, the lower id first, to a question (`copy`, `thing`
    or `match`), `added` at an ISO time (UTC).

    A path is None where the picture has none, or is not in the collection any more.
    """

    a: str
    b: str
    question: str
    answer: Answer
    added: str
    path_a: str | None = None
    path_b: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Both ids."""
        return self.a, self.b


@dataclass(frozen=True)
class NewLabel:
    """An answer about the pictures with two different ids, in either order; `added` is the present time by default."""

    a: str
    b: str
    question: str
    answer: Answer
    added: str | None = None
