"""The scores of some pairs in order, and the file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

from diptych.errors import BatchError
from diptych_runtime.calibration.verdicts import VERDICTS
from diptych_runtime.judgement import CloserLook, Judgement
from diptych_runtime.parsing import parse_json


class Result(NamedTuple):
    """The results of a pair, as columns of an output."""

    relevance_score: float | None
    raw_score: float | None
    verdict: str | None
    closer_look: str | None
    error: str | None


RESULTS = Result._fields

_LOOKS: tuple[CloserLook, ...] = get_args(CloserLook)
_NONE = -1
_VALUES = np.dtype([("relevance", "<f4"), ("raw", "<f4"), ("verdict", "i1"), ("look", "i1")])


def shorten_float(value: np.float32) -> float:
    """The float with the fewest decimals that still means this float32."""
    return float(str(value))


@dataclass(frozen=True)
class Scores:
    """The scores of P pairs: `values` (P,) with the fields `relevance` and `raw`, float32, and `verdict` and `look`,
    places among the verdicts and the answers of `CloserLook`, -1 for none. Scores are not a number where `errors`, by
    place, says why.
    """

    values: np.ndarray
    errors: Mapping[int, str]

    @classmethod
    def from_judgements(cls, judgements: Sequence[Judgement | None], errors: Mapping[int, str]) -> Scores:
        """Make the scores from judgements of pairs; None where there is an error."""
        values = np.array([(np.nan, np.nan, _NONE, _NONE)], _VALUES).repeat(len(judgements))
        for place, one in enumerate(judgements):
            if one is not None:
                look = _NONE if one.closer_look is None else _LOOKS.index(one.closer_look)
                values[place] = one.relevance_score, one.raw_score, VERDICTS.index(one.verdict), look
        return cls(values, errors)

    @classmethod
    def concatenate(cls, pieces: Sequence[Scores]) -> Scores:
        """All of them, at least one, one after the other."""
        errors, count = {}, 0
        for piece in pieces:
            errors.update({count + place: text for place, text in piece.errors.items()})
            count += len(piece.values)
        return cls(np.concatenate([piece.values for piece in pieces]), errors)

    def list_results(self) -> Iterator[Result]:
        """List the values of the columns `RESULTS`, pair by pair."""
        for place, (relevance, raw, verdict, look) in enumerate(self.values):
            if (error := self.errors.get(place)) is not None:
                yield Result(None, None, None, None, error)
            else:
                taken = None if look == _NONE else _LOOKS[look]
                yield Result(shorten_float(relevance), shorten_float(raw), VERDICTS[verdict], taken, None)

    def to_bytes(self) -> bytes:
        """A NumPy file of the values, and behind it the errors as JSON; always the same bytes."""
        stream = BytesIO()
        np.save(stream, self.values)
        stream.write(json.dumps(sorted(self.errors.items())).encode())
        return stream.getvalue()

    @classmethod
    def load(cls, path: Path) -> Scores:
        """Read the output of `to_bytes`. Raises BatchError if it is not that."""
        try:
            with path.open("rb") as stream:
                values = np.load(stream, allow_pickle=False).astype(_VALUES, copy=False)
                return cls(values, dict(parse_json(stream.read())))
        except (ValueError, EOFError, TypeError) as error:
            raise BatchError(f"{path} is damaged ({error}); remove it and go on with --resume") from None
