"""`Scorer`: how alike are two pictures? The methods are those of sentence-transformers' CrossEncoder."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NotRequired, Self, TypedDict

import numpy as np

from diptych.console import Console
from diptych.pictures.content import content_ids
from diptych.pictures.sources import Fetch, is_url, make_fetcher, picture_limits
from diptych.scoring.deadline import current_deadline
from diptych.scoring.decode_pool import Decoder, ThreadDecoder
from diptych.scoring.inputs import Pair, find_distinct, is_picture, list_sources, pairs_of, pictures_of
from diptych.scoring.scheduler import PairScheduler
from diptych.scoring.threads import map_pictures
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.verdicts import Verdict, verdict_thresholds
from diptych_runtime.closer_look.verification import View, describe, verify
from diptych_runtime.decoder import PictureLimits, PictureSource, panel_pixels, query_pixels
from diptych_runtime.errors import ArgumentError, ArtifactError, PictureError
from diptych_runtime.judgement import CloserLook, Judgement, judge_pairs, needs_closer_look, select_competing
from diptych_runtime.own_calibration import OwnCalibration
from diptych_runtime.runtime import Panels, Runtime

ENCODE_BATCH = 64
_FETCHES = 8  # at a time

Original = Callable[[int], PictureSource | None]  # the file of a picture by its number, if it is to be had
Activation = Callable[[np.ndarray], Any]


class RankedDocument(TypedDict):
    """A document of `Scorer.rank`: `corpus_id` is its place among the documents, `score` the probability in [0, 1] or
    the result of `activation_fn`, `raw_score` the logit; `verdict` and `closer_look` are those of `Judgement`.
    """

    corpus_id: int
    score: float
    raw_score: float
    verdict: Verdict
    closer_look: CloserLook | None
    document: NotRequired[PictureSource]


class Scorer:
    """Scores pairs of pictures with one loaded model, with the methods of sentence-transformers' CrossEncoder.

    >>> scorer = Scorer.load()
    >>> scorer.predict([("cat.jpg", "cat-cropped.jpg")])

    A picture is a path, the bytes of a file, a Pillow image, an array uint8 (height, width, 3) or a web address (see
    `load`). The question is by default whether both show the same *thing*; `asking("copy")` answers another. It may be
    used from several threads at once.
    """

    def __init__(
        self,
        runtime: Runtime,
        limits: PictureLimits | None = None,
        *,
        decoder: Decoder | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """Prefer `Scorer.load`. Strangers' pictures need a `DecodePool` as `decoder`, and web addresses a `fetch`."""
        self.runtime, self.scheduler = runtime, PairScheduler(runtime)
        self.limits, self.decoder = limits or picture_limits(), decoder or ThreadDecoder(runtime.threads)
        self.fetch = fetch or make_fetcher(urls=False)

    @classmethod
    def load(
        cls,
        model: str = "photo",
        question: str | None = None,
        *,
        provider: str = "auto",
        threads: int | None = None,
        urls: bool = False,
    ) -> Scorer:
        """The scorer of a model: "photo", "photo-small", "omniglot", an artifact or a calibration of one's own.

        `question` is "copy" or "thing", the default; `provider` is "auto", "cpu" or "cuda"; `threads`
        defaults to what this process may use. With `urls`, or DIPTYCH_URLS, pictures may be web addresses, fetched
        within the limits of the DIPTYCH_URL_* settings; else no connection is opened. Raises ArtifactError.
        """
        runtime = Runtime.open(model, provider=provider, threads=threads).asking(question)
        return cls(runtime, fetch=make_fetcher(urls))

    def asking(self, question: str | None) -> Self:
        """This scorer asked another question, or None for its own. Raises ArtifactError for an unknown one."""
        runtime = self.runtime.asking(question)
        if runtime is self.runtime:
            return self
        view = copy.copy(self)
        view.runtime = runtime
        return view

    def with_calibration(self, own: OwnCalibration | None) -> Self:
        """This scorer with a calibration of one's own, or None for the released one. Raises ArtifactError."""
        view = copy.copy(self)
        view.runtime = self.runtime.with_calibration(own)
        return view

    def predict(
        self,
        inputs: Iterable[Pair],
        batch_size: int = 64,
        show_progress_bar: bool = False,
        activation_fn: Activation | None = None,
        *,
        question: str | None = None,
    ) -> np.ndarray:
        """Probabilities float32 (P,) in [0, 1] of P pairs, lists or tuples of two pictures.

        >>> scorer.predict([("cat.jpg", "dog.jpg")], activation_fn=lambda logits: logits)

        They are calibrated, after a closer look at what may be a copy; with `activation_fn` they are instead what it
        makes of the network's logits float32 (P,). Each distinct picture is encoded once. Raises ArgumentError for what
        are no pairs, PictureError for the first picture that cannot be read, RemoteError for a web address that gives
        none, and what `asking` does.
        """
        asked = self.asking(question)
        sources, sides, logits = asked._logits_of(pairs_of(inputs), batch_size, show_progress_bar)
        if activation_fn is not None:
            return asked._activate(activation_fn, logits)
        name = asked.runtime.question
        judged = asked.judge_pairs(logits, sides, sources.__getitem__, content_ids(sources), asked=name)[name]
        return np.array([one.relevance_score for one in judged], np.float32)

    def rank(
        self,
        query: PictureSource,
        documents: str | os.PathLike[str] | Iterable[PictureSource],
        top_k: int | None = None,
        return_documents: bool = False,
        batch_size: int = 64,
        show_progress_bar: bool = False,
        activation_fn: Activation | None = None,
        *,
        question: str | None = None,
    ) -> list[RankedDocument]:
        """The documents, or the picture files below a folder, by falling likeness to the query.

        >>> scorer.rank("query.jpg", "photos", top_k=1, return_documents=True)

        `corpus_id` is the place among the documents, files of a folder in alphabetical order; equal scores keep that
        order. With `activation_fn` scores and order are what it makes of the logits. Raises what `predict` does.
        """
        if top_k is not None and top_k < 1:
            raise ArgumentError(f"top_k must be at least 1, got {top_k}")
        asked, documents = self.asking(question), pictures_of(documents)
        pairs = [(query, document) for document in documents]
        sources, sides, logits = asked._logits_of(pairs, batch_size, show_progress_bar)
        original, contents = sources.__getitem__, content_ids(sources)
        if activation_fn is None:
            best = asked.rank_pairs(logits, sides, original, contents, top_k)
            scores = [one.relevance_score for _, one in best]
        else:
            values, name = asked._activate(activation_fn, logits), asked.runtime.question
            places = best_first(values)[:top_k]
            judged = asked.judge_pairs(logits[places], sides[places], original, contents, asked=name)[name]
            best, scores = list(zip(places.tolist(), judged, strict=True)), values[places].tolist()
        return [
            RankedDocument(
                corpus_id=place,
                score=score,
                raw_score=one.raw_score,
                verdict=one.verdict,
                closer_look=one.closer_look,
                **({"document": documents[place]} if return_documents else {}),
            )
            for (place, one), score in zip(best, scores, strict=True)
        ]

    def judge(self, inputs: Iterable[Pair]) -> list[dict[str, Judgement]]:
        """The answers to all questions of the model, by question, of each pair. Raises what `predict` does.

        >>> scorer.judge([("cat.jpg", "cat-cropped.jpg")])[0]["copy"].verdict
        """
        sources, sides, logits = self._logits_of(pairs_of(inputs), ENCODE_BATCH, show_progress_bar=False)
        judged = self.judge_pairs(logits, sides, sources.__getitem__, content_ids(sources))
        return [dict(zip(judged, answers, strict=True)) for answers in zip(*judged.values(), strict=True)]

    @property
    def thresholds(self) -> dict[Verdict, float]:
        """The lowest probability of each verdict of its question but *different*."""
        return verdict_thresholds(self.runtime.question_settings.effective_thresholds)

    def verdict(self, relevance: float) -> Verdict:
        """The verdict of a probability, by the `thresholds`: *same*, *likely*, *unsure* or *different*."""
        return self.runtime.question_settings.verdict(relevance)

    def encode(
        self,
        inputs: PictureSource | Iterable[PictureSource],
        batch_size: int = 64,
        show_progress_bar: bool = False,
    ) -> np.ndarray:
        """Unit embeddings float32 (B, e) of B pictures, or (e,) of one, as SentenceTransformer has it.

        >>> scorer.similarity(scorer.encode(["a.jpg", "b.jpg"]), scorer.encode(["c.jpg"]))

        Raises PictureError for the first picture that cannot be read, RemoteError for a web address that gives none.
        """
        embeddings = self.panels(list_sources(inputs), batch_size, show_progress_bar).embeddings
        return embeddings[0] if is_picture(inputs) else embeddings

    def similarity(self, embeddings_a: np.ndarray, embeddings_b: np.ndarray) -> np.ndarray:
        """Cosines float32 (A, B) of embeddings (A, e) of queries and (B, e), as the question weighs their parts."""
        return self.runtime.weight_queries(np.atleast_2d(embeddings_a)) @ np.atleast_2d(embeddings_b).T

    def pixels(self, source: PictureSource, *, name: str | None = None) -> np.ndarray:
        """The picture as the network sees it: uint8 (S, S, 3). Raises PictureError."""
        return self.decoder.run(self._decode_call(self.fetch_sources([source])[0], name))

    def query_pixels(self, source: PictureSource) -> np.ndarray:
        """A query as the network sees it, whole and then its crops: uint8 (V, S, S, 3). Raises PictureError."""
        size, crops = self.runtime.panel_size, self.runtime.crops
        return self.decoder.run(partial(query_pixels, self.fetch_sources([source])[0], size, crops, self.limits))

    def decode(
        self, sources: Sequence[PictureSource], names: Sequence[str | None] | None = None
    ) -> list[np.ndarray | PictureError]:
        """`pixels` of several pictures, in order; where one cannot be read, its error stands in its place."""
        return self.decoder.run_all(
            list(map(self._decode_call, self.fetch_sources(sources), names or [None] * len(sources)))
        )

    def fetch_sources(self, sources: Iterable[PictureSource]) -> list[PictureSource]:
        """Fetch the sources that are web addresses, and put their bytes in their place. Raises RemoteError."""
        sources = list(sources)
        urls = list(dict.fromkeys(source for source in sources if isinstance(source, str) and is_url(source)))
        if not urls:
            return sources
        with ThreadPoolExecutor(_FETCHES, thread_name_prefix="diptych-fetch") as pool:
            contents = dict(zip(urls, pool.map(self.fetch, urls), strict=True))
        return [contents.get(source, source) if isinstance(source, str) else source for source in sources]

    def panels(self, sources: Sequence[PictureSource], batch_size: int = 64, show_progress_bar: bool = False) -> Panels:
        """Tokens float16 (B, N, M, d) and unit embeddings float32 (B, e) of B pictures. Raises what `encode` does."""
        _check_batch(batch_size)
        parts: list[Panels] = []
        with Console(quiet=not show_progress_bar).progress(total=len(sources), unit="picture") as bar:
            for start in range(0, len(sources), batch_size):
                decoded = self.decode(sources[start : start + batch_size])
                parts.append(self.encode_pixels(np.stack([_raise_error(pixels) for pixels in decoded])))
                bar.update(len(decoded))
        if len(parts) == 1:
            return parts[0]
        none = (
            np.empty((0, *self.runtime.token_shape), np.float16),
            np.empty((0, self.runtime.embedding_dim), np.float32),
        )
        return Panels(*map(np.concatenate, zip(none, *parts, strict=True)))

    def encode_pixels(self, pixels: np.ndarray) -> Panels:
        """The panel graph on uint8 (B, S, S, 3). Raises ArtifactError if it gives numbers that are not finite."""
        panels = self.runtime.encode(pixels)
        self._check_finite("a picture", *panels)
        return panels

    def logits(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Raw scores float32 (P,) of P pairs of tokens float16 (P, N, M, d); one query may stand for all pairs.

        The order of the two pictures makes no difference, to the last bit. Raises ArtifactError, and what
        `PairScheduler.logits` does.
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

    def judge_pairs(
        self,
        logits: np.ndarray,
        pairs: np.ndarray,
        original: Original,
        contents: Sequence[str | None] | None = None,
        *,
        held: np.ndarray | None = None,
        asked: str | None = None,
        most: int | None = None,
    ) -> dict[str, list[Judgement]]:
        """Judge pairs int64 (P, 2) of pictures by number from their `all_logits` (P, Q), by question.

        These may be `held` (P, Q) against their rivals (`diptych_runtime.judgement`). Pairs with one id among their
        `contents`, if it is known, are the same. Of what deserves it for the question that is `asked`, or for any, the
        `most` likeliest are looked at more closely, once by each `original`; without that they are judged without.
        """
        known = logits if held is None else held
        questions = self.runtime.manifest.questions
        same = have_one_content(pairs, contents)
        seen = self.look_closer(pairs, needs_closer_look(questions, known, asked, most) & ~same, original)
        return judge_pairs(questions, logits, seen, held=held, same=same)

    def look_closer(self, pairs: np.ndarray, needs_look: np.ndarray, original: Original) -> list[Evidence | None]:
        """Look closer at the pairs int64 (P, 2) that `needs_look`, bool (P,): their evidence, None of the others."""
        seen: list[Evidence | None] = [None] * len(pairs)
        numbers = np.unique(pairs[needs_look]).tolist()
        views = dict(zip(numbers, self.views([original(number) for number in numbers]), strict=True))
        found = self.evidence([(views[a], views[b]) for a, b in pairs[needs_look].tolist()])
        for place, evidence in zip(np.flatnonzero(needs_look).tolist(), found, strict=True):
            seen[place] = evidence
        return seen

    def views(self, sources: Sequence[PictureSource | None]) -> list[View | None]:
        """The view of each picture for a closer look; None where the file is missing or unreadable."""
        had = self.fetch_sources(source for source in sources if source is not None)
        described = iter(self.decoder.run_all([partial(describe, source, self.limits) for source in had]))
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

    def _logits_of(
        self, pairs: Sequence[Pair], batch_size: int, show_progress_bar: bool
    ) -> tuple[list[PictureSource], np.ndarray, np.ndarray]:
        """The distinct pictures of pairs, the pairs int64 (P, 2) of places among them, and `all_logits` (P, Q)."""
        _check_batch(batch_size)
        named, sides = find_distinct(pairs)
        sources = self.fetch_sources(named)
        tokens = self.panels(sources, show_progress_bar=show_progress_bar).tokens
        logits = np.empty((len(pairs), len(self.runtime.questions)), np.float32)
        with Console(quiet=not show_progress_bar).progress(total=len(pairs), unit="pair") as bar:
            for start in range(0, len(pairs), batch_size):
                chosen = sides[start : start + batch_size]
                logits[start : start + batch_size] = self.all_logits(tokens[chosen[:, 0]], tokens[chosen[:, 1]])
                bar.update(len(chosen))
        return sources, sides, logits

    def rank_pairs(
        self,
        logits: np.ndarray,
        pairs: np.ndarray,
        original: Original,
        contents: Sequence[str | None] | None = None,
        top: int | None = None,
    ) -> list[tuple[int, Judgement]]:
        """The places and judgements of the `top` best pairs by `all_logits` (P, Q), equals as the network has them."""
        name, same = self.runtime.question, have_one_content(pairs, contents)
        places = best_first(np.where(same, np.inf, logits[:, self.runtime.column]))
        if top is not None:
            chosen = select_competing(self.runtime.manifest.questions, logits, name, top) | same
            places = places[chosen[places]]
        judged = self.judge_pairs(logits[places], pairs[places], original, contents, asked=name)[name]
        order = best_first(np.array([one.relevance_score for one in judged]))[:top]
        return [(int(places[place]), judged[place]) for place in order.tolist()]

    def _activate(self, function: Activation, logits: np.ndarray) -> np.ndarray:
        """What a function of the caller makes of the logits (P, Q) to its question (P,). Raises ArgumentError."""
        asked = logits[:, self.runtime.column].copy()
        values = np.asarray(function(asked))
        if values.shape != asked.shape:
            raise ArgumentError(f"activation_fn must return an array of the shape {asked.shape}, got {values.shape}")
        return values

    def _decode_call(self, source: PictureSource, name: str | None) -> Callable[[], np.ndarray]:
        return partial(panel_pixels, source, self.runtime.panel_size, self.limits, name=name)

    def _check_finite(self, what: str, *arrays: np.ndarray) -> None:
        if not all(np.isfinite(array).all() for array in arrays):
            raise ArtifactError(
                f"the model {self.runtime.name} ({self.runtime.revision}) gave numbers that are not finite for {what}; "
                "look into it with `diptych doctor`"
            )


def _raise_error(pixels: np.ndarray | PictureError) -> np.ndarray:
    if isinstance(pixels, PictureError):
        raise pixels
    return pixels


def have_one_content(pairs: np.ndarray, contents: Sequence[str | None] | None) -> np.ndarray:
    """Which pairs int64 (P, 2) are of one picture, or of two that have one id among their contents, bool (P,)."""
    same = pairs[:, 0] == pairs[:, 1]
    if contents is None:
        return same
    alike = [contents[a] is not None and contents[a] == contents[b] for a, b in pairs.tolist()]
    return same | np.array(alike, bool)


def _check_batch(batch_size: int) -> None:
    if batch_size < 1:
        raise ArgumentError(f"batch_size must be at least 1, got {batch_size}")


def best_first(logits: np.ndarray) -> np.ndarray:
    """The permutation int64 (P,) that puts the highest of P scores first; equal scores keep their order."""
    return np.argsort(-logits, kind="stable")
