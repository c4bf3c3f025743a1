"""The scores of some pairs in order, and the file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from diptych.errors import BatchError

RESULTS = ("relevance_score", "raw_score", "error")

Result = tuple[float | None, float | None, str | None]


def shortest(value: np.float32) -> float:
    """The float whose decimals are the fewest that still mean this float32."""
    return float(str(value))


@dataclass(frozen=True)
class Scores:
    """Relevance and raw scores float32 (P,) of P pairs; not a number where `errors`, by place, says why."""

    relevance: np.ndarray
    raw: np.ndarray
    errors: Mapping[int, str]

    @classmethod
    def empty(cls, count: int, errors: Mapping[int, str]) -> Scores:
        """Of so many pairs, to be filled in where there is no error."""
        return cls(np.full(count, np.nan, np.float32), np.full(count, np.nan, np.float32), errors)

    @classmethod
    def joined(cls, pieces: Sequence[Scores]) -> Scores:
        """All of them, one after the other."""
        errors, count = {}, 0
        for piece in pieces:
            errors.update({count + place: text for place, text in piece.errors.items()})
            count += len(piece)
        whole = cls.empty(count, errors)
        for name in ("relevance", "raw"):
            np.concatenate([getattr(piece, name) for piece in pieces] or [[]], out=getattr(whole, name))
        return whole

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, rows: slice) -> Scores:
        first, stop, _ = rows.indices(len(self))
        errors = {place - first: text for place, text in self.errors.items() if first <= place < stop}
        return Scores(self.relevance[rows], self.raw[rows], errors)

    def results(self) -> Iterator[Result]:
        """The values of the columns `RESULTS`, pair by pair."""
        for place, (relevance, raw) in enumerate(zip(self.relevance, self.raw, strict=True)):
            error = self.errors.get(place)
            yield (shortest(relevance), shortest(raw), None) if error is None else (None, None, error)

    def to_bytes(self) -> bytes:
        """A NumPy file of both scores float32 (P, 2), and behind it the errors as JSON; always the same bytes."""
        stream = BytesIO()
        np.save(stream, np.stack([self.relevance, self.raw], 1))
        stream.write(json.dumps(sorted(self.errors.items())).encode())
        return stream.getvalue()

    @classmethod
    def load(cls, path: Path) -> Scores:
        """Read the output of `to_bytes`. Raises BatchError if it is not that."""
        try:
            with path.open("rb") as stream:
                both = np.load(stream, allow_pickle=False)
                return cls(both[:, 0], both[:, 1], dict(json.loads(stream.read())))
        except (ValueError, EOFError, IndexError) as error:
            raise BatchError(f"{path} is damaged ({error}); remove it and go on with --resume") from None
