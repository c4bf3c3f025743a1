"""`Scorer`: how alike are two pictures? The signatures are those of sentence-transformers' CrossEncoder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from diptych.console import Console
from diptych.scoring.deadline import current_deadline
from diptych.scoring.decode_pool import Decoder, ThreadDecoder
from diptych.scoring.scheduler import PairScheduler
from diptych.scoring.threads import map_pictures
from diptych_runtime.calibration.verdicts import Verdict
from diptych_runtime.closer_look.evidence import Evidence
from diptych_runtime.closer_look.verification import View, describe, verify
from diptych_runtime.decoder import PictureLimits, PictureSource, panel_pixels, query_pixels
from diptych_runtime.errors import ArtifactError, PictureError
from diptych_runtime.judgement import Judgement, deserving, judge
from diptych_runtime.own_calibration import OwnCalibration
from diptych_runtime.runtime import Panels, Runtime

ENCODE_BATCH = 64

Original = Callable[[int], PictureSource | None]  # the file of a picture by its number, if it is to be had


class Scorer:
    """Scores pairs of pictures with one loaded model; may be used from several threads at once, whose pairs its
    `scheduler` then scores together.

    >>> scorer = Scorer.load()
    >>> scorer.predict([("cat.jpg", "cat-cropped.jpg")])

    It answers one question, by default whether both show the same *thing*; `asking("copy")` answers another.
    """

    def __init__(
        self, runtime: Runtime, limits: PictureLimits | None = None, *, decoder: Decoder | None = None
    ) -> None:
        """Pictures are decoded by `decoder`, a `DecodePool` for strangers' pictures; by default by threads."""
        self.runtime, self.scheduler = runtime, PairScheduler(runtime)
        self.limits, self.decoder = limits or PictureLimits(), decoder or ThreadDecoder(runtime.threads)

    @classmethod
    def load(
        cls,
        model: str = "photo",
        question: str | None = None,
        *,
        provider: str = "auto",
        threads: int | None = None,
    ) -> Scorer:
        """The scorer of a bundled model (by name), of an artifact directory, or of a calibration of one's own (the file
        that `diptych calibrate` writes).

        `question` is "copy" or "thing", the default; `provider` is "auto", "cpu", "cuda" or "tensorrt"; `threads`
        defaults to what this process may use. Raises ArtifactError.
        """
        return cls(Runtime.open(model, provider=provider, threads=threads).asking(question))

    def asking(self, question: str | None) -> Self:
        """This scorer asked another question: the same model, scheduler, decoder and limits. None is no other one.

        Raises ArtifactError for a question that the model does not answer.
        """
        runtime = self.runtime.asking(question)
        if runtime is self.runtime:
            return self
        view = copy.copy(self)
        view.runtime = runtime
        return view

    def calibrated(self, own: OwnCalibration | None) -> Self:
        """This scorer with a calibration of one's own over its model's, or with None, as that was released.

        Raises ArtifactError for a calibration that was made over another model.
        """
        view = copy.copy(self)
        view.runtime = self.runtime.calibrated(own)
        return view

    def pixels(self, source: PictureSource, *, name: str | None = None) -> np.ndarray:
        """The picture as the network sees it: uint8 (S, S, 3). Raises PictureError."""
        return self.decoder.run(self._decoding(source, name))

    def query_pixels(self, source: PictureSource) -> np.ndarray:
        """A query as the network sees it, the whole of it and then its crops, if its question has any: uint8
        (V, S, S, 3). Raises PictureError.
        """
        size, crops = self.runtime.panel_size, self.runtime.crops
        return self.decoder.run(partial(query_pixels, source, size, crops, self.limits))

    def decode(
        self, sources: Sequence[PictureSource], names: Sequence[str | None] | None = None
    ) -> list[np.ndarray | PictureError]:
        """`pixels` of several pictures, in order; where one cannot be read, its error stands in its place."""
        return self.decoder.each(list(map(self._decoding, sources, names or [None] * len(sources))))

    def encode(self, sources: Sequence[PictureSource]) -> Panels:
        """Tokens float16 (B, N, M, d) and unit embeddings float32 (B, e) of B pictures, in order.

        Raises the PictureError of the first picture that cannot be read.
        """
        parts: list[Panels] = []
        for start in range(0, len(sources), ENCODE_BATCH):
            decoded = self.decode(sources[start : start + ENCODE_BATCH])
            parts.append(self.encode_pixels(np.stack([_good(pixels) for pixels in decoded])))
        if not parts:
            shape = self.runtime.token_shape
            return Panels(np.empty((0, *shape), np.float16), np.empty((0, self.runtime.embedding_dim), np.float32))
        if len(parts) == 1:
            return parts[0]
        return Panels(
            np.concatenate([part.tokens for part in parts]), np.concatenate([part.embeddings for part in parts])
        )

    def encode_pixels(self, pixels: np.ndarray) -> Panels:
        """The panel graph on uint8 (B, S, S, 3). Raises ArtifactError if it gives numbers that are not finite."""
        panels = self.runtime.encode(pixels)
        self._check_finite("a picture", *panels)
        return panels

    def logits(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Raw scores float32 (P,) of P pairs of tokens float16 (P, N, M, d); one query may stand for all pairs.

        The order of the two pictures makes no difference, to the last bit. Raises ArtifactError like `encode_pixels`,
        and what `PairScheduler.logits` does.
        """
        return np.ascontiguousarray(self.all_logits(tokens_a, tokens_b)[:, self.runtime.column])

    def all_logits(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """`logits` of all questions float32 (P, Q), in the order of `Runtime.questions`, by the same look."""
        logits = self.scheduler.logits(tokens_a, tokens_b)
        self._check_finite("a pair", logits)
        return logits

    def relevance(self, logits: np.ndarray) -> np.ndarray:
        """Calibrated probabilities float32 in [0, 1] that the answer to its question is yes, by the network alone."""
        return self.runtime.relevance(logits)

    def verdict(self, relevance: float) -> Verdict:
        """The verdict of a probability of its question, as `judge` and `predict` return it: *same*, *likely*, *unsure*
        or *different*.

        *same* is said from the strictest threshold on that the model states, *likely* from the one before it, *unsure*
        from even odds on.
        """
        return self.runtime.verdict(relevance)

    def judge(self, pairs: Sequence[tuple[PictureSource, PictureSource]]) -> list[dict[str, Judgement]]:
        """The answers to all questions of the model, by question, of each pair.

        >>> scorer.judge([("cat.jpg", "cat-cropped.jpg")])[0]["copy"].verdict

        Copies are looked at more closely where the model says so. Raises PictureError for the first picture that cannot
        be read.
        """
        sources, sides = _distinct(pairs)
        tokens = self.encode(sources).tokens
        logits = self.all_logits(tokens[sides[:, 0]], tokens[sides[:, 1]])
        judged = self.judged(logits, sides, sources.__getitem__)
        return [dict(zip(judged, answers, strict=True)) for answers in zip(*judged.values(), strict=True)]

    def judged(
        self,
        logits: np.ndarray,
        pairs: np.ndarray,
        original: Original,
        *,
        held: np.ndarray | None = None,
        asked: str | None = None,
        most: int | None = None,
    ) -> dict[str, list[Judgement]]:
        """Judgements by question of pairs int64 (P, 2) of pictures by number, with `all_logits` (P, Q), which may be
        `held` (P, Q) against their rivals (`diptych_runtime.judgement`).

        What deserves it for the question that is `asked`, or for any, is looked at more closely: the `original` of a
        picture is asked for once, and where there is none, or it cannot be read, the pair is judged without. With
        `most` no more than the likeliest so many get a closer look.
        """
        known = logits if held is None else held
        questions = self.runtime.manifest.questions
        worth = deserving(questions, known, asked)
        if most is not None:
            likeliest = best_first(np.where(worth, known[:, self.runtime.column], -np.inf))
            worth[likeliest[most:]] = False
        seen = self.look_closer(pairs, worth, original)
        return judge(questions, logits, seen, held=held)

    def look_closer(self, pairs: np.ndarray, worth: np.ndarray, original: Original) -> list[Evidence | None]:
        """The evidence of closer looks at the pairs int64 (P, 2) that are `worth` one, bool (P,); None of the others,
        and where an `original` is missing (see `judged`).
        """
        seen: list[Evidence | None] = [None] * len(pairs)
        numbers = np.unique(pairs[worth]).tolist()
        views = dict(zip(numbers, self.views([original(number) for number in numbers]), strict=True))
        found = self.evidence([(views[a], views[b]) for a, b in pairs[worth].tolist()])
        for place, evidence in zip(np.flatnonzero(worth).tolist(), found, strict=True):
            seen[place] = evidence
        return seen

    def views(self, sources: Sequence[PictureSource | None]) -> list[View | None]:
        """The view of each picture for a closer look; None where the file is missing or unreadable."""
        had = [source for source in sources if source is not None]
        described = iter(self.decoder.each([partial(describe, source, self.limits) for source in had]))
        found = [None if source is None else next(described) for source in sources]
        return [None if isinstance(view, PictureError) else view for view in found]

    def evidence(self, pairs: Sequence[tuple[View | None, View | None]]) -> list[Evidence | None]:
        """The evidence of a closer look at each pair of views; None where a view is missing."""

        def look(pair: tuple[View | None, View | None]) -> Evidence | None:
            current_deadline().check("a closer look")
            a, b = pair
            return None if a is None or b is None else verify(a, b)

        seen = map_pictures(look, pairs, self.runtime.threads)
        return [None if isinstance(evidence, PictureError) else evidence for evidence in seen]

    def predict(
        self,
        pairs: Sequence[tuple[PictureSource, PictureSource]],
        *,
        activation: bool = True,
        batch_size: int = 64,
        show_progress_bar: bool = False,
        question: str | None = None,
    ) -> np.ndarray:
        """Relevance scores float32 (P,) in [0, 1] of P pairs, or the raw logits with `activation=False`.

        `question` is asked in place of its own. `show_progress_bar` draws a bar where standard error is a terminal.
        Each distinct picture is encoded once. Copies are looked at more
        closely where the model says so (`judge`); a logit is what the network alone says. Raises PictureError for the
        first picture that cannot be read, and what `asking` does.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        asked = self.asking(question)
        sources, sides = _distinct(pairs)
        tokens = self.encode(sources).tokens
        logits = np.empty((len(pairs), len(asked.runtime.questions)), np.float32)
        with Console(quiet=not show_progress_bar).progress(total=len(pairs), unit="pair") as bar:
            for start in range(0, len(pairs), batch_size):
                chosen = sides[start : start + batch_size]
                logits[start : start + batch_size] = asked.all_logits(tokens[chosen[:, 0]], tokens[chosen[:, 1]])
                bar.update(len(chosen))
        name = asked.runtime.question
        if not activation:
            return logits[:, asked.runtime.column].copy()
        judged = asked.judged(logits, sides, sources.__getitem__, asked=name)[name]
        return np.array([one.relevance_score for one in judged], np.float32)

    def rank(
        self,
        query: PictureSource,
        documents: Sequence[PictureSource],
        top_k: int | None = None,
        return_documents: bool = False,
        *,
        question: str | None = None,
    ) -> list[dict[str, Any]]:
        """The documents by falling likeness to the query: `[{"corpus_id", "score", "raw_score", "verdict",
        "closer_look"}, ...]`.

        `corpus_id` is the place in `documents`; equal scores keep that order. `return_documents` adds "document".
        `question` is asked in place of its own. Copies among the `top_k` are looked at more closely (`ranked`).
        """
        if top_k is not None and top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        asked = self.asking(question)
        sources, sides = _distinct([(query, document) for document in documents])
        tokens = self.encode(sources).tokens
        logits = asked.all_logits(tokens[sides[:, 0]], tokens[sides[:, 1]])
        return [
            {"corpus_id": place, "score": one.relevance_score, "raw_score": one.raw_score}
            | {"verdict": one.verdict, "closer_look": one.closer_look}
            | ({"document": documents[place]} if return_documents else {})
            for place, one in asked.ranked(logits, sides, sources.__getitem__, top_k)
        ]

    def ranked(
        self, logits: np.ndarray, pairs: np.ndarray, original: Original, top: int | None = None
    ) -> list[tuple[int, Judgement]]:
        """The places and judgements of the `top` best of pairs with `all_logits` (P, Q) to its question (see `judged`).

        The network says which these are, and the probability in what order; equals stay in the order of the network.
        """
        best = best_first(logits[:, self.runtime.column])[:top]
        name = self.runtime.question
        judged = self.judged(logits[best], pairs[best], original, asked=name)[name]
        order = best_first(np.array([one.relevance_score for one in judged]))
        return [(int(best[place]), judged[place]) for place in order.tolist()]

    def _decoding(self, source: PictureSource, name: str | None) -> Callable[[], np.ndarray]:
        return partial(panel_pixels, source, self.runtime.panel_size, self.limits, name=name)

    def _check_finite(self, what: str, *arrays: np.ndarray) -> None:
        if not all(np.isfinite(array).all() for array in arrays):
            raise ArtifactError(
                f"the model {self.runtime.name} ({self.runtime.revision}) gave numbers that are not finite for {what}; "
                "look into it with `diptych doctor`"
            )


def best_first(logits: np.ndarray) -> np.ndarray:
    """The permutation int64 (P,) that puts the highest of P scores first; equal scores keep their order."""
    return np.argsort(-logits, kind="stable")


def _good(pixels: np.ndarray | PictureError) -> np.ndarray:
    if isinstance(pixels, PictureError):
        raise pixels
    return pixels


def _two(pair: Sequence[PictureSource], row: int) -> tuple[PictureSource, PictureSource]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ValueError(f"pair {row} must be a tuple of two pictures, got {type(pair).__name__}")
    return pair[0], pair[1]


def _distinct(pairs: Sequence[tuple[PictureSource, PictureSource]]) -> tuple[list[PictureSource], np.ndarray]:
    """The distinct pictures of pairs, and the pairs int64 (P, 2) of places among them."""
    places: dict[Hashable, int] = {}
    sources: list[PictureSource] = []
    sides = np.empty((len(pairs), 2), np.int64)
    for row, pair in enumerate(pairs):
        for side, source in enumerate(_two(pair, row)):
            key = _key(source)
            if key not in places:
                places[key] = len(sources)
                sources.append(source)
            sides[row, side] = places[key]
    return sources, sides


def _key(source: PictureSource) -> Hashable:
    """The key by which two sources are the same picture, without looking inside: equal paths or bytes, or the same
    object.
    """
    if isinstance(source, bytes | str):
        return source
    if hasattr(source, "__fspath__"):
        return str(source)
    return (id(source),)
