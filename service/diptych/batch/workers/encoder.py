"""Pictures that a table names, from names to tokens, with a reason for each unreadable one; and the scores of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from diptych.batch.tables.scores import Scores
from diptych.errors import RemoteError
from diptych.pictures.content import content_id
from diptych.pictures.sources import Fetch, is_url, refuse_url
from diptych.scoring.scorer import ENCODE_BATCH, Scorer
from diptych.scoring.threads import map_pictures
from diptych.scoring.view_cache import ViewCache
from diptych.store.records import FileStamp
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.verification import View
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import PictureError
from diptych_runtime.judgement import Judgement, judge_pairs, needs_closer_look
from diptych_runtime.paths import existing_form

_LOOKED = 16  # pairs whose pictures are read at once for a closer look

Pair = tuple[str, str]  # of the names of two pictures


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

    def read_stamp(self, name: str) -> FileStamp | None:
        """Read the size and the time of a file; None where there is no file."""
        return None if not name or is_url(name) else FileStamp.of(str(self._resolve_path(name)))

    def find_content_id(self, name: str, stamp: FileStamp | None) -> str | None:
        """Find the id of a file's content; None unless it still has the stamp of when it was encoded."""
        if stamp is None or self.read_stamp(name) != stamp:
            return None
        return _content_id(self._resolve_path(name), stamp)

    def _resolve_path(self, name: str) -> Path:
        return Path(existing_form(str(self.base / name)))

    def _decode_pixels(self, name: str) -> np.ndarray:
        return self.scorer.pixels(self.open_source(name), name=name)


@lru_cache(maxsize=4096)
def _content_id(path: Path, stamp: FileStamp) -> str | None:
    return content_id(path)


class PairScorer:
    """Scores pairs of encoded pictures; with `closer_look` the files of pairs that deserve it are read once more."""

    def __init__(self, encoder: Encoder, sides: tuple[str, str], *, closer_look: bool) -> None:
        """`sides` are the names of the two pictures in errors."""
        self.encoder, self.sides = encoder, sides
        self._views = ViewCache() if closer_look else None

    def score_pairs(
        self,
        pairs: Sequence[Pair],
        tokens_a: np.ndarray,
        tokens_b: np.ndarray,
        errors: Mapping[str, str],
        stamps: Mapping[str, FileStamp | None],
    ) -> Scores:
        """Score pairs with tokens float16 (P, N, M, d), to the question that is asked.

        A picture with an error, by name, is one of its pairs. `stamps` are those of when the pictures were encoded: a
        file that has another one since is not read again.
        """
        failed: dict[int, str] = {}
        for place, pair in enumerate(pairs):
            if told := [
                f"{side}: {errors[name]}" for side, name in zip(self.sides, pair, strict=True) if name in errors
            ]:
                failed[place] = "; ".join(told)
        judgements: list[Judgement | None] = [None] * len(pairs)
        good = np.setdiff1d(np.arange(len(pairs)), list(failed))
        if len(good):
            logits = self.encoder.scorer.all_logits(tokens_a[good], tokens_b[good])
            judged = self._judge_pairs([pairs[place] for place in good.tolist()], logits, stamps)
            for place, judgement in zip(good.tolist(), judged, strict=True):
                judgements[place] = judgement
        return Scores.from_judgements(judgements, failed)

    def _judge_pairs(
        self, pairs: Sequence[Pair], logits: np.ndarray, stamps: Mapping[str, FileStamp | None]
    ) -> list[Judgement]:
        runtime = self.encoder.scorer.runtime
        questions, asked = runtime.manifest.questions, runtime.question
        same = np.array([self._have_one_content(pair, stamps) for pair in pairs], bool)
        seen: list[Evidence | None] = [None] * len(pairs)
        if self._views is not None:
            places = np.flatnonzero(needs_closer_look(questions, logits, asked) & ~same).tolist()
            for start in range(0, len(places), _LOOKED):
                batch = places[start : start + _LOOKED]
                for place, evidence in zip(batch, self._look_closer([pairs[p] for p in batch], stamps), strict=True):
                    seen[place] = evidence
        return judge_pairs(questions, logits, seen, same=same)[asked]

    def _have_one_content(self, pair: Pair, stamps: Mapping[str, FileStamp | None]) -> bool:
        """True for one picture, and for two files with the same bytes; of other sizes neither is read."""
        a, b = pair
        one, other = stamps[a], stamps[b]
        if a == b or one is None or other is None or one.bytes != other.bytes:
            return a == b
        found = self.encoder.find_content_id(a, one)
        return found is not None and found == self.encoder.find_content_id(b, other)

    def _look_closer(self, pairs: Sequence[Pair], stamps: Mapping[str, FileStamp | None]) -> list[Evidence | None]:
        assert self._views is not None
        names = list(dict.fromkeys(name for pair in pairs for name in pair))
        views = self._views.get_views(names, partial(self._describe_views, stamps=stamps))
        return self.encoder.scorer.evidence([(views[a], views[b]) for a, b in pairs])

    def _describe_views(self, names: list[str], stamps: Mapping[str, FileStamp | None]) -> Mapping[str, View | None]:
        """Describe pictures by name; None for a file that is gone, or that changed since it was encoded."""
        encoder = self.encoder
        same = [name for name in names if encoder.read_stamp(name) == stamps[name]]
        sources = map_pictures(encoder.open_source, same, encoder.scorer.runtime.threads)
        there = [None if isinstance(source, PictureError) else source for source in sources]
        views = dict(zip(same, encoder.scorer.views(there), strict=True))
        # Once more: none may have changed while it was read.
        return {name: views.get(name) if encoder.read_stamp(name) == stamps[name] else None for name in names}
