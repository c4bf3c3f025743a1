"""Pictures that a table names: from names to tokens, one reason for each that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diptych.batch.tables.scores import Scores
from diptych.errors import RemoteError
from diptych.pictures.sources import Fetch, is_url, refuse_url
from diptych.scoring.scorer import ENCODE_BATCH, Scorer
from diptych.scoring.threads import map_pictures
from diptych_runtime.errors import PictureError
from diptych_runtime.judgement import probabilities


@dataclass(frozen=True)
class Encoder:
    """Makes tokens of pictures by name: relative paths start from `base`, `fetch` gets what is a web address."""

    scorer: Scorer
    base: Path
    fetch: Fetch = refuse_url

    def encode(self, names: Sequence[str]) -> tuple[np.ndarray, dict[int, str]]:
        """Tokens float16 (P, N, M, d) of P pictures, zeros for those that cannot be read, and why, by place."""
        tokens = np.zeros((len(names), *self.scorer.runtime.token_shape), np.float16)
        errors: dict[int, str] = {}
        for start in range(0, len(names), ENCODE_BATCH):
            decoded = map_pictures(self._pixels, names[start : start + ENCODE_BATCH], self.scorer.runtime.threads)
            good = []
            for place, pixels in enumerate(decoded, start):
                if isinstance(pixels, PictureError):
                    errors[place] = str(pixels)
                else:
                    good.append((place, pixels))
            if good:
                places, pixels = zip(*good, strict=True)
                tokens[list(places)] = self.scorer.encode_pixels(np.stack(pixels)).tokens
        return tokens, errors

    def _pixels(self, name: str) -> np.ndarray:
        if not name:
            raise PictureError("the path is empty")
        if is_url(name):
            try:
                return self.scorer.pixels(self.fetch(name), name=name)
            except RemoteError as error:
                raise PictureError(str(error)) from None
        return self.scorer.pixels(self.base / name, name=name)


def pair_errors(sides: tuple[str, str], errors: Sequence[tuple[str | None, str | None]]) -> dict[int, str]:
    """The errors of pairs without a score, by place, from the errors of each one's two pictures."""
    return {
        place: "; ".join(f"{side}: {error}" for side, error in zip(sides, both, strict=True) if error is not None)
        for place, both in enumerate(errors)
        if both != (None, None)
    }


def score_pairs(scorer: Scorer, tokens_a: np.ndarray, tokens_b: np.ndarray, errors: dict[int, str]) -> Scores:
    """Scores of pairs of tokens float16 (P, N, M, d), but for those with an error; none is looked at more closely."""
    scores = Scores.empty(len(tokens_a), errors)
    good = np.setdiff1d(np.arange(len(tokens_a)), list(errors))
    if len(good):
        whole = len(good) == len(tokens_a)
        logits = scorer.all_logits(tokens_a if whole else tokens_a[good], tokens_b if whole else tokens_b[good])
        shown = probabilities(scorer.runtime.manifest.questions, logits)
        scores.raw[good], scores.relevance[good] = logits[:, scorer.runtime.column], shown[scorer.runtime.question]
    return scores
