"""Pictures that a table names, from names to tokens, with a reason for each unreadable one; and the scores of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from diptych.batch.parts.tokens import Stamp
from diptych.batch.tables.scores import Scores
from diptych.errors import RemoteError
from diptych.pictures.content import content_id
from diptych.pictures.sources import Fetch, is_url, refuse_url
from diptych.scoring.scorer import ENCODE_BATCH, Scorer
from diptych.scoring.threads import map_pictures
from diptych.scoring.view_cache import ViewCache
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.verification import View
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import PictureError
from diptych_runtime.judgement import Judgement, judge_pairs, needs_closer_look
from diptych_runtime.paths import existing_form

_LOOKED = 16  # pairs whose pictures are read at once for a closer look

Look = Callable[[Sequence[int]], Sequence[Evidence | None]]  # at the pairs with these places


@dataclass(frozen=True)
class Encoder:
    """Makes tokens of pictures by name: relative paths start from `base`, `fetch` gets what is a web address."""

    scorer: Scorer
    base: Path
    fetch: Fetch = refuse_url

    def encode_pictures(self, names: Sequence[str]) -> tuple[np.ndarray, dict[int, str]]:
        """Encode pictures to tokens float16 (P, N, M, d), and the errors by place.

        A picture that cannot be read has zeros.
        """
        tokens = np.zeros((len(names), *self.scorer.runtime.token_shape), np.float16)
        errors: dict[int, str] = {}
        for start in range(0, len(names), ENCODE_BATCH):
            decoded = map_pictures(
                self._decode_pixels, names[start : start + ENCODE_BATCH], self.scorer.runtime.threads
            )
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

    def open_source(self, name: str) -> PictureSource:
        """Open a name: the file, or the bytes behind a web address. Raises PictureError."""
        if not name:
            raise PictureError("the path is empty")
        if is_url(name):
            try:
                return self.fetch(name)
            except RemoteError as error:
                raise PictureError(str(error)) from None
        return self._resolve_path(name)

    def read_stamp(self, name: str) -> Stamp | None:
        """Read the size and the time of a file; None where there is no file."""
        if not name or is_url(name):
            return None
        try:
            status = self._resolve_path(name).stat()
        except (OSError, ValueError):
            return None
        return status.st_size, status.st_mtime_ns

    def have_one_content(self, pairs: Sequence[tuple[str, str]], stamps: Mapping[str, Stamp | None]) -> np.ndarray:
        """Which pairs of names are of one picture, or of two files with the same bytes, bool (P,), as far as they have
        the stamps still that they had when they were encoded.
        """

        def find_content_id(name: str) -> str | None:
            stamp = stamps[name]
            return (
                None
                if stamp is None or self.read_stamp(name) != stamp
                else _content_id(self._resolve_path(name), stamp)
            )

        def is_same(a: str, b: str) -> bool:
            if a == b:
                return True
            one, other = stamps[a], stamps[b]
            if one is None or other is None or one[0] != other[0]:  # of other sizes: neither is read
                return False
            return find_content_id(a) is not None and find_content_id(a) == find_content_id(b)

        return np.array([is_same(a, b) for a, b in pairs], bool)

    def _resolve_path(self, name: str) -> Path:
        return Path(existing_form(str(self.base / name)))

    def _decode_pixels(self, name: str) -> np.ndarray:
        return self.scorer.pixels(self.open_source(name), name=name)


@dataclass(frozen=True)
class CloserLooks:
    """Closer looks at pairs of names, for which their pictures are read once more, with a cache of their views."""

    encoder: Encoder
    views: ViewCache = field(default_factory=ViewCache)

    def look_at_pairs(
        self, pairs: Sequence[tuple[str, str]], stamps: Mapping[str, Stamp | None]
    ) -> list[Evidence | None]:
        """Look more closely at each pair of names; returns their evidence.

        It is None where a picture is gone, or its file has another stamp than when it was encoded.
        """
        seen: list[Evidence | None] = []
        describe = partial(self._describe_views, stamps=stamps)
        for start in range(0, len(pairs), _LOOKED):
            batch = pairs[start : start + _LOOKED]
            views = self.views.get_views(list(dict.fromkeys(name for pair in batch for name in pair)), describe)
            seen += self.encoder.scorer.evidence([(views[a], views[b]) for a, b in batch])
        return seen

    def _describe_views(self, names: list[str], stamps: Mapping[str, Stamp | None]) -> Mapping[str, View | None]:
        same = [name for name in names if self.encoder.read_stamp(name) == stamps[name]]
        sources = map_pictures(self.encoder.open_source, same, self.encoder.scorer.runtime.threads)
        there = [None if isinstance(source, PictureError) else source for source in sources]
        views = dict(zip(same, self.encoder.scorer.views(there), strict=True))
        kept = {
            name for name in same if self.encoder.read_stamp(name) == stamps[name]
        }  # none changed while it was read
        return {name: views[name] if name in kept else None for name in names}


@lru_cache(maxsize=4096)
def _content_id(path: Path, stamp: Stamp) -> str | None:
    return content_id(path)


def pair_errors(sides: tuple[str, str], errors: Sequence[tuple[str | None, str | None]]) -> dict[int, str]:
    """The errors of pairs without a score, by place, from the errors of each one's two pictures."""
    return {
        place: "; ".join(f"{side}: {error}" for side, error in zip(sides, both, strict=True) if error is not None)
        for place, both in enumerate(errors)
        if both != (None, None)
    }


def score_pairs(
    scorer: Scorer,
    tokens_a: np.ndarray,
    tokens_b: np.ndarray,
    errors: dict[int, str],
    same: np.ndarray,
    look: Look | None = None,
) -> Scores:
    """Scores of pairs of tokens float16 (P, N, M, d), but for those with an error, to the question that is asked;
    those that are the `same`, bool (P,), are so without being looked at. `look` takes the closer looks that pairs
    deserve; without it they get none.
    """
    judgements: list[Judgement | None] = [None] * len(tokens_a)
    good = np.setdiff1d(np.arange(len(tokens_a)), list(errors))
    if len(good):
        whole = len(good) == len(tokens_a)
        logits = scorer.all_logits(tokens_a if whole else tokens_a[good], tokens_b if whole else tokens_b[good])
        questions, asked = scorer.runtime.manifest.questions, scorer.runtime.question
        seen: list[Evidence | None] = [None] * len(good)
        if look is not None:
            rows = np.flatnonzero(needs_closer_look(questions, logits, asked) & ~same[good])
            for place, evidence in zip(rows.tolist(), look(good[rows].tolist()) if len(rows) else (), strict=True):
                seen[place] = evidence
        answers = judge_pairs(questions, logits, seen, same=same[good])[asked]
        for place, judgement in zip(good.tolist(), answers, strict=True):
            judgements[place] = judgement
    return Scores.from_judgements(judgements, errors)
