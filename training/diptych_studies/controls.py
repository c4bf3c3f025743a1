"""Controls beside a model, on the same pictures: what people use today, untrained, and parts of a model alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from PIL import Image

from diptych_runtime.decoder import PictureSource, open_picture
from diptych_runtime.errors import PictureError
from diptych_runtime.models import find_checkpoint
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.galleries import Found, Search, judge_copies, rank_by_embedding, rank_gallery
from diptych_training.evaluation.open_model import open_model
from diptych_training.evaluation.stages import Method, Progress

LONGEST = 480
RATIO = 0.8
REPROJECTION = 5.0
PARTS = ("late", "twin", "untrained")  # what may stand before a model and a colon


class Control(Protocol):
    """Describes each picture once, then scores pairs of descriptions.

    `verifies` is True where a pair is too dear for a whole gallery, so that only a first stage's candidates are scored.
    """

    name: str
    verifies: bool

    def describe(self, picture: PictureSource, /) -> Any:
        """Features of one picture; raises PictureError where it cannot be read."""
        ...

    def scores(self, query: Any, references: Sequence[Any], /) -> np.ndarray:
        """The similarity of the query to each reference: float64 (R,), finite, larger is more alike."""
        ...


class PerceptualHash:
    """Minus the number of bits, of 64, in which two hashes differ: in [-64, 0].

    The bits are signs of low frequencies of the grey picture, the hash people find copies with (imagehash).
    """

    name = "phash"
    verifies = False

    def __init__(self) -> None:
        from imagehash import phash

        self._phash = phash

    def describe(self, picture: PictureSource) -> np.ndarray:
        """The hash: bool (64,)."""
        return self._phash(open_picture(picture)).hash.ravel()

    def scores(self, query: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
        """Minus the Hamming distances, float64 (R,)."""
        return -(np.stack(references) != query).sum(1).astype(np.float64)


class Keypoints(NamedTuple):
    """Places float32 (P, 2), x and y in pixels, and their descriptors uint8 (P, D); P may be 0."""

    places: np.ndarray
    descriptors: np.ndarray


class Sift:
    """Inliers of a homography, plus the share m / (m + 1) for m matches to order equals: finite and at least 0.

    Pictures are brought to a longest side of 480 pixels, smaller ones stay, and have at most 1,000 keypoints. The ratio
    test asks the query, so (a, b) and (b, a) may differ.
    """

    name = "sift"
    verifies = True

    def __init__(self) -> None:
        import cv2

        cv2.setNumThreads(1)
        self._cv2: Any = cv2
        # It starts from twice the picture's size by itself: enlarging first costs five times as much and finds no more.
        self._detector = cv2.SIFT_create(nfeatures=1000)  # pyright: ignore[reportAttributeAccessIssue]

    def describe(self, picture: PictureSource) -> Keypoints:
        """The picture's keypoints; none where it is blank."""
        grey = open_picture(picture).convert("L")
        scale = LONGEST / max(grey.size)
        if scale < 1:
            width, height = (max(1, round(side * scale)) for side in grey.size)
            grey = grey.resize((width, height), Image.Resampling.BICUBIC)
        found, descriptors = self._detector.detectAndCompute(np.asarray(grey), None)
        if descriptors is None:
            return Keypoints(np.empty((0, 2), np.float32), np.empty((0, self._detector.descriptorSize()), np.uint8))
        # Descriptors are whole numbers up to 255 as floats; a gallery of them takes a quarter of the memory as bytes.
        return Keypoints(np.array([point.pt for point in found], np.float32), descriptors.astype(np.uint8))

    def scores(self, query: Keypoints, references: Sequence[Keypoints]) -> np.ndarray:
        """Inliers and the tie-breaker, float64 (R,)."""
        return np.array([self._score_pair(query, reference) for reference in references], np.float64)

    def _score_pair(self, query: Keypoints, reference: Keypoints) -> float:
        asked, answered = self.matches(query, reference)
        count = len(asked)
        return self._count_inliers(query.places[asked], reference.places[answered]) + count / (count + 1)

    def matches(self, query: Keypoints, reference: Keypoints) -> tuple[np.ndarray, np.ndarray]:
        """Indices (M,) of the matched keypoints of both pictures, each keypoint at most once.

        Without the mutual test many keypoints meet in one, and some homography always collapses them onto it.
        """
        # The ratio test needs a second neighbour.
        if len(query.places) == 0 or len(reference.places) < 2:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        distance = _measure_distances(query.descriptors, reference.descriptors)
        nearest, second = np.partition(distance, 1, axis=1)[:, :2].T
        best = distance.argmin(1)
        mutual = distance.argmin(0)[best] == np.arange(len(best))
        asked = np.flatnonzero(mutual & (nearest < RATIO * second))
        return asked, best[asked]

    def _count_inliers(self, places_a: np.ndarray, places_b: np.ndarray) -> int:
        if len(places_a) < 4:
            return 0
        # RANSAC draws from a global generator; without this a score would depend on the pairs before it.
        self._cv2.setRNGSeed(0)
        _, inliers = self._cv2.findHomography(places_a, places_b, self._cv2.RANSAC, REPROJECTION)
        return 0 if inliers is None else int(inliers.sum())


def _measure_distances(vectors_a: np.ndarray, vectors_b: np.ndarray) -> np.ndarray:
    """Distances float32 (A, B) of uint8 (A, D) and (B, D); exact, as every sum is a whole number below 2^24."""
    a, b = vectors_a.astype(np.float32), vectors_b.astype(np.float32)
    return np.sqrt(np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T)


CONTROLS: dict[str, Callable[[], Control]] = {"phash": PerceptualHash, "sift": Sift}


def make_control(name: str) -> Control:
    """Make the control of this name.

    Raises `DataError` where it is not known or lacks its library.
    """
    if name not in CONTROLS:
        raise DataError(f"no control is called {name!r}; known are {', '.join(CONTROLS)}")
    try:
        return CONTROLS[name]()
    except ImportError as error:
        raise DataError(f"the control {name} needs `pip install 'diptych[evaluate]'`: {error}") from None


def measure_controls(
    controls: Sequence[Control], runtime: Runtime, search: Search, progress: Progress
) -> dict[str, Method]:
    """Measure controls on a search for copies, by name.

    One that verifies takes the candidates of the model's first stage; any other ranks the whole gallery itself.
    """
    if not controls:
        return {}
    first, figures = rank_by_embedding(runtime, search, progress)[0], judge_copies(search)
    found = {control.name: rank_by_control(control, search, first, progress) for control in controls}
    rankings = {name: one.make_ranking(search) for name, one in found.items()}
    return {name: Method(figures(one, rankings[name]), rankings[name]) for name, one in found.items()}


def rank_by_control(control: Control, search: Search, first: Found, progress: Progress) -> Found:
    """Rank the gallery, or the candidates of a first stage, by a control. Raises `DataError` for a damaged picture."""
    gallery = _describe_files(control, search.gallery, progress, "the gallery")
    asked = _describe_files(control, search.queries, progress, "queries")
    queries = progress(range(len(asked)), len(asked), f"{control.name}, queries")
    if control.verifies:
        return first.permute_candidates(
            np.stack([control.scores(asked[q], [gallery[i] for i in first.order[q]]) for q in queries])
        )
    return rank_gallery((np.asarray(control.scores(asked[q], gallery))[None] for q in queries), search)


def _describe_files(control: Control, files: Sequence[Path], progress: Progress, name: str) -> list[Any]:
    features = []
    for file in progress(files, len(files), f"{control.name} of {name}"):
        try:
            features.append(control.describe(file))
        except PictureError as error:
            raise DataError(f"{error}; mend it or leave it out") from None
    return features


@contextmanager
def open_part(model: str, question: str | None = None) -> Iterator[Runtime]:
    """Open a model, or a part of one alone, and ask it the question.

    `late:MODEL` is late interaction over the tokens of a model whose weights are there, and `twin:MODEL` the cosine of
    its embeddings: what its panel part is worth without its pair part. `untrained:MODEL` is the cosine of what its
    encoder saw before our training. Raises what `open_model` does.
    """
    part, colon, of = model.partition(":")
    if not colon or part not in PARTS:
        with open_model(model, question) as whole:
            yield whole
        return
    from diptych_export.artifact import export_artifact
    from diptych_studies.parts import load_untrained, relate_by

    made = {"late": partial(relate_by, "late"), "twin": partial(relate_by, "siamese"), "untrained": load_untrained}
    with tempfile.TemporaryDirectory(prefix="diptych-") as temporary:
        artifact = Path(temporary, "artifact")
        # Pairs enough to see a fault; ten thousand are for what is to be kept.
        export_artifact(made[part](find_checkpoint(of)), artifact, name=f"{part}:{Path(of).resolve().name}", pairs=400)
        yield Runtime.open(artifact).asking(question)
