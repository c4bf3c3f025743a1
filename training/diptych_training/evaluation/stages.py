"""The common part of all protocols: files, models in two stages, methods side by side, intervals, and the evidence."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

import numpy as np

from diptych_runtime.calibration.reliability import measure_reliability
from diptych_runtime.crops import crop_boxes
from diptych_runtime.decoder import query_pixels
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Panels, Runtime
from diptych_training.errors import DataError
from diptych_training.learning.calibration import even_weights
from diptych_training.metrics import Ranking

_NAMED = 3


@contextmanager
def as_folder(source: Path, wanted: Callable[[PurePosixPath], bool] = lambda name: True) -> Iterator[Path]:
    """The folder itself, or for a zip archive a temporary one with its `wanted` members, gone when the block ends."""
    if source.is_dir():
        yield source
        return
    if not zipfile.is_zipfile(source):
        what = "is no zip archive" if source.exists() else "does not exist"
        raise DataError(f"expected a folder or a zip archive, and {source} {what}")
    with tempfile.TemporaryDirectory(prefix="diptych-") as temporary, zipfile.ZipFile(source) as archive:
        members = (PurePosixPath(name) for name in archive.namelist() if not name.endswith("/"))
        # What a Mac adds to its archives looks like pictures and is none.
        kept = [str(name) for name in members if "__MACOSX" not in name.parts and wanted(name)]
        archive.extractall(temporary, kept)
        yield Path(temporary)


def require_pictures(files: Sequence[Path], what: str, hint: str) -> None:
    """Raise `DataError` where pictures are missing, with the first ones and their number; `hint` is the next step."""
    gone = [file for file in dict.fromkeys(files) if not file.is_file()]
    if gone:
        named = ", ".join(str(file) for file in gone[:_NAMED]) + (", ..." if len(gone) > _NAMED else "")
        raise DataError(f"{len(gone)} of {len(set(files))} {what} are not there: {named}; {hint}")


DRAWS = 1000


@dataclass(frozen=True)
class Estimate:
    """A figure and its `draws` (D,): what it is when the queries are drawn anew with replacement, NaN where what was
    drawn has no such figure.

    Draw i is the same queries for every estimate of one `Resampling`, and so two of them subtract in pairs.
    """

    value: float
    draws: np.ndarray

    @property
    def interval(self) -> list[float]:
        """The middle 95 % of the draws, [low, high]."""
        return _middle_interval(self.draws)

    def gain_over(self, other: Estimate) -> list[float]:
        """This minus the other, paired: [value, low, high]."""
        return [self.value - other.value, *_middle_interval(self.draws - other.draws)]


class Resampling:
    """Draws units with replacement: `unit` says what they are (queries, runs, pairs), `of` int (T,) which one each
    trial belongs to, where trials of one unit are not independent of each other.
    """

    def __init__(self, unit: str, of: np.ndarray) -> None:
        self.unit, self.of = unit, of
        self.count = int(of.max()) + 1

    def counts(self) -> Iterator[np.ndarray]:
        """For each draw how often every unit came, int64 (units,)."""
        rng = np.random.default_rng(0)
        for _ in range(DRAWS):
            yield np.bincount(rng.integers(0, self.count, self.count), minlength=self.count)

    def estimate(self, statistic: Callable[[np.ndarray], float]) -> Estimate:
        """A statistic of how often every unit counts, such as micro-AP."""
        value = statistic(np.ones(self.count, np.int64))
        return Estimate(float(value), np.array([statistic(counts) for counts in self.counts()], float))

    def mean(self, values: np.ndarray, counted: np.ndarray | None = None) -> Estimate:
        """The mean of one value a trial (T,); trials that are not `counted` (T,) bool are left out, and so are draws
        without any.
        """
        counted = np.ones(len(values), bool) if counted is None else counted
        sums = np.bincount(self.of[counted], np.asarray(values, float)[counted], self.count)
        sizes = np.bincount(self.of[counted], minlength=self.count)

        def mean(counts: np.ndarray) -> float:
            drawn = int(counts @ sizes)
            return float(counts @ sums) / drawn if drawn else float("nan")

        return self.estimate(mean)


def _middle_interval(draws: np.ndarray) -> list[float]:
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return [float(low), float(high)]


@dataclass(frozen=True)
class Evidence:
    """One protocol's outcome for one model: `result` is what `--json` prints, `title` says it in words."""

    protocol: str
    title: str
    model: str
    revision: str
    result: dict[str, Any]


@dataclass(frozen=True)
class Scored:
    """Scored pairs: `logits` (P,), and `labels` bool (P,), True where they match.

    `matches` is how many matches there were to find, scored or not. `shown` (P,) are the probabilities after a closer
    look, None where there was none.
    """

    logits: np.ndarray
    labels: np.ndarray
    matches: int
    shown: np.ndarray | None = None

    def relevance(self, runtime: Runtime) -> np.ndarray:
        """The probabilities (P,) as they are shown."""
        return runtime.relevance(self.logits) if self.shown is None else self.shown

    def calibration(self, runtime: Runtime) -> dict[str, Any]:
        """Expected calibration error, reliability bins, and the rates at each threshold here.

        Matches and others weigh the same in all, as they do where probabilities are fitted. Empty where one is missing.
        """
        if self.labels.all() or not self.labels.any():
            return {}
        probabilities = self.relevance(runtime)
        stated = runtime.thresholds if self.shown is None else runtime.question_settings.effective_thresholds
        counted = measure_reliability(probabilities, self.labels, even_weights(self.labels))
        filled = np.flatnonzero(counted.pairs)
        return {
            "ece": counted.error,
            "pairs": len(self.labels),
            "matches": int(self.labels.sum()),
            "bins": [
                {
                    "from": float(counted.edges[i]),
                    "to": float(counted.edges[i + 1]),
                    "pairs": int(counted.pairs[i]),
                    "weight": float(counted.weight[i]),
                    "confidence": float(counted.confidence[i]),
                    "frequency": float(counted.frequency[i]),
                }
                for i in filled
            ],
            "thresholds": {
                rate: {"threshold": threshold} | self.measure_rates(probabilities >= threshold)
                for rate, threshold in stated.items()
            },
        }

    def measure_rates(self, over: np.ndarray) -> dict[str, float]:
        """The rates of the pairs that pass, `over` bool (P,): the share of the others, and of all the matches there
        were to find.
        """
        return {
            "false_positive_rate": float(over[~self.labels].mean()),
            "recall": float(over[self.labels].sum() / self.matches),
        }

    def evidence(self, protocol: str, title: str, runtime: Runtime, result: dict[str, Any]) -> Evidence:
        """The evidence of a protocol for the model that scored these pairs, with its calibration added to `result`."""
        told = result | {"question": runtime.question, "calibration": self.calibration(runtime)}
        return Evidence(protocol, title, runtime.name, runtime.revision, told)


Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]

_PICTURES, _PAIRS = 64, 1024  # decoded, and scored, at a time


@dataclass(frozen=True)
class Entrants:
    """The entrants measured on the same queries: the model, and other models beside it.

    `progress` (items, how many, what) is given every long loop.
    """

    model: Runtime
    against: Mapping[str, Runtime] = field(default_factory=dict)
    progress: Progress = lambda items, total, name: items


@dataclass(frozen=True)
class Method:
    """One way to rank: its figures by the name they have in JSON, and the ranking they come from."""

    estimates: dict[str, Estimate]
    ranking: Ranking

    @property
    def values(self) -> dict[str, float]:
        """The figures alone."""
        return {key: estimate.value for key, estimate in self.estimates.items()}

    @property
    def intervals(self) -> dict[str, list[float]]:
        """Their 95 % intervals, [low, high]."""
        return {key: estimate.interval for key, estimate in self.estimates.items()}

    def gains_over(self, *others: Method) -> dict[str, list[float]]:
        """Each figure minus the best of the others', paired: [value, low, high]."""
        best = {key: max((o.estimates[key] for o in others), key=lambda e: e.value) for key in self.estimates}
        return {key: estimate.gain_over(best[key]) for key, estimate in self.estimates.items()}


class Stages(NamedTuple):
    """A model's two: by the embedding alone, and after the pair scorer has looked at both."""

    first: Method
    reranked: Method

    @property
    def gain(self) -> dict[str, list[float]]:
        """Each figure re-ranked minus the first stage's, paired: [value, low, high]."""
        return self.reranked.gains_over(self.first)


@dataclass(frozen=True)
class Comparison:
    """The model's stages beside those of other models, all on the same queries."""

    ours: Stages
    against: dict[str, Stages]

    def beside(self) -> dict[str, Any]:
        """The JSON of the other models; every gain is ours, re-ranked, minus theirs at its best."""
        return {
            "against": {
                name: {
                    "first_stage": theirs.first.values,
                    "reranked": theirs.reranked.values,
                    "interval": {"first_stage": theirs.first.intervals, "reranked": theirs.reranked.intervals},
                    "gain": self.ours.reranked.gains_over(*theirs),
                }
                for name, theirs in self.against.items()
            },
        }


Seen = TypeVar("Seen")


def compare_entrants(
    entrants: Entrants, look: Callable[[Runtime], Seen], judge: Callable[[Seen], Stages]
) -> tuple[Comparison, Seen]:
    """Compare the stages of all entrants, and return too what `look` saw with our model."""
    seen = look(entrants.model)
    against = {name: judge(look(runtime)) for name, runtime in entrants.against.items()}
    return Comparison(judge(seen), against), seen


def encode_files(runtime: Runtime, files: Sequence[Path], progress: Progress, name: str, crops: float = 0.0) -> Panels:
    """Encode picture files with the runtime, decoding two at a time.

    Raises `DataError` for a damaged one.

    With `crops` each has several rows, those of its views (see `query_pixels`).
    """
    views = 1 + len(crop_boxes(crops))
    tokens = np.empty((len(files) * views, *runtime.token_shape), np.float16)
    embeddings = np.empty((len(files) * views, runtime.embedding_dim), np.float32)

    def pixels(file: Path) -> np.ndarray:
        try:
            return query_pixels(file, runtime.panel_size, crops)
        except PictureError as error:
            raise DataError(f"{error}; mend it or leave it out") from None

    with ThreadPoolExecutor(2) as pool:
        for start in progress(range(0, len(files), _PICTURES), -(-len(files) // _PICTURES), f"encoding {name}"):
            rows = slice(start * views, (start + _PICTURES) * views)
            batch = list(pool.map(pixels, files[start : start + _PICTURES]))
            tokens[rows], embeddings[rows] = runtime.encode(np.concatenate(batch))
    return Panels(tokens, embeddings)


def pair_logits(
    runtime: Runtime, tokens_a: np.ndarray, tokens_b: np.ndarray, pairs: np.ndarray, progress: Progress
) -> np.ndarray:
    """Logits float32 (P,) of its question, of `pairs` int (P, 2), rows of the tokens of either side."""
    return all_logits(runtime, tokens_a, tokens_b, pairs, progress)[:, runtime.column]


def all_logits(
    runtime: Runtime, tokens_a: np.ndarray, tokens_b: np.ndarray, pairs: np.ndarray, progress: Progress
) -> np.ndarray:
    """`pair_logits` of all questions float32 (P, Q).

    Where both sides are the same tokens each unordered pair is scored once, since the score knows no order.
    """
    inverse = None
    if tokens_a is tokens_b:
        low, high = pairs.min(1), pairs.max(1)
        keys, inverse = np.unique(low.astype(np.int64) * len(tokens_a) + high, return_inverse=True)
        pairs = np.stack(np.divmod(keys, len(tokens_a)), 1)
    logits = np.empty((len(pairs), len(runtime.questions)), np.float32)
    for start in progress(range(0, len(pairs), _PAIRS), -(-len(pairs) // _PAIRS), "looking at both (1,024 pairs)"):
        rows = slice(start, start + _PAIRS)
        logits[rows] = runtime.all_logits(tokens_a[pairs[rows, 0]], tokens_b[pairs[rows, 1]])
    return logits if inverse is None else logits[inverse]
