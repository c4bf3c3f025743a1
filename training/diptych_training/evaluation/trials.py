"""Pictures asked about listed candidates: one-shot runs, random episodes, and labelled pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from diptych_runtime.calibration.reliability import expected_calibration_error
from diptych_runtime.runtime import Runtime
from diptych_training.data.csv import LABELS, read_table
from diptych_training.data.episodes import draw_episodes, read_drawings, split_of
from diptych_training.errors import DataError
from diptych_training.evaluation.stages import (
    Comparison,
    Entrants,
    Evidence,
    Method,
    Progress,
    Resampling,
    Scored,
    Stages,
    as_folder,
    compare_entrants,
    encode_files,
    pair_logits,
    require_pictures,
)
from diptych_training.learning.calibration import even_weights
from diptych_training.metrics import Pool, Ranking, wilson_interval

_TRIALS = 2048


@dataclass(frozen=True)
class Trials:
    """Pictures asked about candidates: `queries` int (T,) and `candidates` int (T, W) are rows of `files`, and `labels`
    bool (T, W) say which candidates show the same.
    """

    files: Sequence[Path]
    queries: np.ndarray
    candidates: np.ndarray
    labels: np.ndarray

    @property
    def pairs(self) -> np.ndarray:
        """All pairs (T * W, 2), trial by trial."""
        return np.stack([np.repeat(self.queries, self.candidates.shape[1]), self.candidates.ravel()], 1)


Judge = Callable[[np.ndarray], Method]


def measure_trials(entrants: Entrants, trials: Trials, judge: Judge) -> tuple[Comparison, Scored]:
    """Both stages of every model on the same trials, and the pairs our model scored; `judge` is given scores (T, W)."""
    comparison, (_, logits) = compare_entrants(
        entrants,
        lambda runtime: _score_trials(runtime, trials, entrants.progress),
        lambda scores: Stages(*map(judge, scores)),
    )
    labels = trials.labels.ravel()
    return comparison, Scored(logits.ravel(), labels, int(labels.sum()))


def _score_trials(runtime: Runtime, trials: Trials, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and logits (T, W)."""
    tokens, embeddings = encode_files(runtime, trials.files, progress, "pictures")
    cosines = np.empty(trials.candidates.shape, np.float32)
    for start in range(0, len(cosines), _TRIALS):
        rows = slice(start, start + _TRIALS)
        asked, offered = runtime.weight_queries(embeddings[trials.queries[rows]]), embeddings[trials.candidates[rows]]
        cosines[rows] = np.einsum("td,twd->tw", asked, offered)
    return cosines, pair_logits(runtime, tokens, tokens, trials.pairs, progress).reshape(cosines.shape)


def judge_accuracy(trials: Trials, resampling: Resampling) -> Judge:
    """Judge scores by the trials that they win: a query's highest score must be that of the right candidate."""

    def judge(scores: np.ndarray) -> Method:
        ranking = rank_candidates(scores, trials.labels)
        return Method({"accuracy": resampling.mean(ranking.relevant[:, 0])}, ranking)

    return judge


def rank_candidates(scores: np.ndarray, labels: np.ndarray) -> Ranking:
    """Candidates of every trial (T, W), best first; of equals the right one last, so that a tie is not won."""
    order = np.lexsort((labels, -scores), axis=-1)
    relevant = np.take_along_axis(labels, order, 1)
    return Ranking(np.take_along_axis(scores, order, 1), relevant, np.ones(len(scores), bool))


def _build_evidence(
    protocol: str,
    title: str,
    entrants: Entrants,
    measured: tuple[Comparison, Scored],
    *,
    counted: dict[str, Any],
    interval: Callable[[Method], list[float]],
    resampling: Resampling,
) -> Evidence:
    """Build the evidence of a protocol; `counted` comes first in its JSON."""
    comparison, scored = measured
    first, reranked = comparison.ours
    beside = _one_figure(comparison, interval)
    result = counted | {
        "trials": len(reranked.ranking.scores),
        "accuracy": reranked.values["accuracy"],
        "interval": interval(reranked),
        "first_stage": {"accuracy": first.values["accuracy"], "interval": interval(first)},
        "gain": comparison.ours.gain["accuracy"],
        "resampled": resampling.unit,
    }
    return scored.evidence(protocol, title, entrants.model, result | beside)


def _one_figure(comparison: Comparison, interval: Callable[[Method], list[float]]) -> dict[str, Any]:
    """The JSON of `Comparison.beside` for a protocol with one figure: intervals and gains need no name of their own."""
    beside = comparison.beside()
    for name, stages in comparison.against.items():
        found = beside["against"][name]
        del found["interval"]
        found["first_stage"] |= {"interval": interval(stages.first)}
        found["reranked"] |= {"interval": interval(stages.reranked)}
        found["gain"] = found["gain"]["accuracy"]
    return beside


RUN_LABELS = "class_labels.txt"
LAYOUT = (
    "runNN/training/classNN.png, runNN/test/itemNN.png and runNN/class_labels.txt (a line: test path, training path)"
)
# Fewer runs than this are too few to be drawn anew: then trials are, as if they were independent.
_FEWEST_RUNS = 10


def read_runs(folder: Path) -> tuple[Trials, list[str], np.ndarray]:
    """Read the runs below a folder: their trials, their names, and int (T,) the run of each trial.

    Paths in `class_labels.txt` may start at the runs' folder, at the folder given or at the run itself.
    """
    runs = sorted(path.parent for path in folder.rglob(RUN_LABELS))
    if not runs:
        raise DataError(f"no run was found; expected {LAYOUT}")
    files: dict[Path, int] = {}
    queries, candidates, right, run_of = [], [], [], []
    for number, run in enumerate(runs):
        offered = sorted((run / "training").glob("*.png"))
        if len(offered) < 2:
            raise DataError(f"{run.name}/training has {len(offered)} pictures (*.png); expected {LAYOUT}")
        if candidates and len(offered) != len(candidates[0]):
            raise DataError(f"{run.name} has {len(offered)} training pictures and {runs[0].name} {len(candidates[0])}")
        for asked, answer in _read_labels(run, folder):
            if answer not in offered:
                raise DataError(
                    f"{run.name}/{RUN_LABELS} answers with {answer.name}, which is not in {run.name}/training"
                )
            candidates.append([files.setdefault(file, len(files)) for file in offered])
            queries.append(files.setdefault(asked, len(files)))
            right.append(offered.index(answer))
            run_of.append(number)
    labels = np.arange(len(candidates[0])) == np.array(right)[:, None]
    trials = Trials(list(files), np.array(queries, np.int64), np.array(candidates, np.int64), labels)
    return trials, [run.name for run in runs], np.array(run_of)


def evaluate_oneshot(entrants: Entrants, folder: Path) -> Evidence:
    """Measure the accuracy over all trials of all runs, with Wilson's interval."""
    trials, names, run_of = read_runs(folder)
    clustered = len(names) >= _FEWEST_RUNS
    resampling = Resampling("runs", run_of) if clustered else Resampling("trials", np.arange(len(run_of)))
    measured = measure_trials(entrants, trials, judge_accuracy(trials, resampling))

    def accuracies(method: Method) -> list[float]:
        return [float(method.ranking.relevant[run_of == run, 0].mean()) for run in range(len(names))]

    ours = measured[0].ours
    stages = zip(names, accuracies(ours.first), accuracies(ours.reranked), strict=True)
    runs = [{"run": name, "accuracy": after, "first_stage": first} for name, first, after in stages]
    return _build_evidence(
        "oneshot",
        f"One-shot runs: {trials.candidates.shape[1]}-way, {len(names)} runs",
        entrants,
        measured,
        counted={"ways": trials.candidates.shape[1], "runs": runs},
        interval=lambda method: wilson_interval(method.ranking.relevant[:, 0].sum(), len(run_of)),
        resampling=resampling,
    )


def open_runs(source: Path):
    """The runs as a folder, unpacked where they are a zip archive; a context manager."""
    return as_folder(source, lambda name: name.suffix == ".png" or name.name == RUN_LABELS)


def _read_labels(run: Path, folder: Path) -> list[tuple[Path, Path]]:
    lines = [line.split() for line in (run / RUN_LABELS).read_text("utf-8").splitlines() if line.strip()]
    if not lines or any(len(line) != 2 for line in lines):
        raise DataError(
            f"{run.name}/{RUN_LABELS} must have lines of a test path and a training path; expected {LAYOUT}"
        )
    starts = (run.parent, folder, run)

    def find(written: str) -> Path:
        path = PurePosixPath(written)
        return next((start / path for start in starts if (start / path).is_file()), run.parent / path)

    found = [(find(asked), find(answer)) for asked, answer in lines]
    require_pictures(
        [file for pair in found for file in pair], f"pictures of {run.name}/{RUN_LABELS}", f"expected {LAYOUT}"
    )
    return found


def evaluate_episodes(
    entrants: Entrants, folder: Path, *, split: str | None = None, episodes: int = 500, ways: int = 20, seed: int = 0
) -> Evidence:
    """Measure the accuracy over random episodes, its interval by drawing episodes anew."""
    if episodes < 1 or ways < 2:
        raise DataError(f"expected at least one episode of at least two ways, got {episodes} of {ways}")
    drawings = read_drawings(folder, split)
    drawn = draw_episodes(drawings, episodes, ways=ways, seed=seed)
    # Only what is asked for is encoded, and every drawing once.
    used, rows = np.unique(np.stack([(e.queries, e.candidates) for e in drawn]), return_inverse=True)
    asked, offered = rows.reshape(episodes, 2, ways).swapaxes(0, 1)
    trials = Trials(
        [drawings.files[i] for i in used],
        asked.ravel(),
        np.repeat(offered, ways, axis=0),
        np.tile(np.eye(ways, dtype=bool), (episodes, 1)),
    )
    resampling = Resampling("episodes", np.repeat(np.arange(episodes), ways))
    return _build_evidence(
        "episodes",
        f"Random one-shot episodes: {ways}-way, within alphabet",
        entrants,
        measure_trials(entrants, trials, judge_accuracy(trials, resampling)),
        counted={"episodes": episodes, "ways": ways, "seed": seed, "drawings": len(used)},
        interval=lambda method: method.intervals["accuracy"],
        resampling=resampling,
    )


def open_drawings(source: Path, split: str | None = None):
    """The drawings as a folder, one split of them unpacked where they are a zip archive; a context manager."""
    return as_folder(source, lambda name: split is None or (len(name.parts) > 3 and split_of(name) == split))


COLUMNS = ("image_a", "image_b", "label")
# The false-positive rate of the threshold that is named first.
RATE = "0.01"


def read_pairs(path: Path, root: Path) -> Trials:
    """Read the columns image_a, image_b (below `root`) and label (1 or 0, true or false, yes or no)."""
    rows, files = read_table(path, COLUMNS), {}
    pairs, labels = [], []
    for number, row in enumerate(rows, 1):
        label = LABELS.get(row["label"].strip().lower())
        if label is None or not row["image_a"] or not row["image_b"]:
            raise DataError(
                f"row {number} of {path} must name two pictures and a label of {', '.join(LABELS)}; "
                f"it has {row['image_a']!r}, {row['image_b']!r} and {row['label']!r}"
            )
        pairs.append([files.setdefault(root / row[side], len(files)) for side in COLUMNS[:2]])
        labels.append(label)
    if len(set(labels)) < 2:
        raise DataError(f"{path} needs pairs of both labels, got {sum(labels)} that match of {len(labels)}")
    require_pictures(list(files), f"pictures of {path.name}", f"its paths are relative to --root, which is {root}")
    rows_of = np.array(pairs, np.int64)
    return Trials(tuple(files), rows_of[:, 0], rows_of[:, 1:], np.array(labels)[:, None])


def evaluate_pairs(entrants: Entrants, trials: Trials) -> Evidence:
    """Measure the separation of matches from others by scores, and the quality of the probabilities and the threshold.

    The trials have one candidate each. The threshold is the model's own for 1 % false positives; a model without one
    gets that which parts these pairs best.
    """
    labels, model = trials.labels.ravel(), entrants.model
    resampling = Resampling("pairs", np.arange(len(labels)))

    def judge(scores: np.ndarray) -> Method:
        scores = scores.ravel()
        pool, order = Pool(scores, labels, np.arange(len(labels))), np.argsort(-scores, kind="stable")
        ranking = Ranking(scores[None, order], labels[None, order], np.array([labels.sum()]))
        precision = resampling.estimate(lambda n: pool.average_precision(int(n @ labels), n))
        return Method({"auc": resampling.estimate(pool.auc), "average_precision": precision}, ranking)

    comparison, scored = measure_trials(entrants, trials, judge)
    ours, probabilities = comparison.ours, model.relevance(scored.logits)

    def error(counts: np.ndarray) -> float:
        drawn = np.repeat(np.arange(len(labels)), counts)
        both = labels[drawn].any() and not labels[drawn].all()
        if not both:
            return float("nan")
        return expected_calibration_error(probabilities[drawn], labels[drawn], even_weights(labels[drawn]))

    ece = resampling.estimate(error)
    result = {
        **ours.reranked.values,
        "ece": ece.value,
        **_find_threshold(model, scored, probabilities),
        "first_stage": ours.first.values,
        "gain": ours.gain,
        "interval": ours.reranked.intervals | {"ece": ece.interval, "first_stage": ours.first.intervals},
        "pairs": len(labels),
        "matches": int(labels.sum()),
        "resampled": resampling.unit,
    }
    title = f"Pairs: {len(labels):,}, of which {int(labels.sum()):,} match"
    return scored.evidence("pairs", title, model, result | comparison.beside())


def _find_threshold(model: Runtime, scored: Scored, probabilities: np.ndarray) -> dict[str, Any]:
    """The threshold, its origin, and the rates that it gives here."""
    if RATE in model.thresholds:
        threshold, source = model.thresholds[RATE], f"the model's for {float(RATE):.0%} false positives"
    else:
        pool = Pool(probabilities, scored.labels)
        found, others = pool.curve()
        threshold = float(pool.places[np.argmax(found / found[-1] - others / others[-1])])
        source = "chosen on these pairs, as the model has none: the highest recall minus false-positive rate"
    over = probabilities >= threshold
    precision = float(scored.labels[over].mean()) if over.any() else None
    return {
        "threshold": threshold,
        "threshold_source": source,
        "at_threshold": scored.measure_rates(over)
        | {"precision": precision, "accuracy": float((over == scored.labels).mean())},
    }
