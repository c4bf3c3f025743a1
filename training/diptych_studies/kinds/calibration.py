"""The calibration of probabilities on kinds of pictures that they were not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diptych.console import format_table
from diptych_runtime.atomic import replacing_file
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.calibration.reliability import Reliability, measure_reliability
from diptych_runtime.calibration.thresholds import NEGATIVES
from diptych_runtime.judgement import question_probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.fitting import (
    ABOVE,
    Answers,
    Pairs,
    answers_of,
    ask_for_looks,
    fit_after_look,
    fit_verification,
)
from diptych_studies.kinds.negatives import random_pairs
from diptych_studies.kinds.planted import KINDS, open_kinds
from diptych_training.errors import DataError
from diptych_training.learning.calibration import (
    NEAREST,
    even_weights,
    fit_calibration,
    fit_thresholds,
    weights_of_parts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATES = (0.01, 0.001)


@dataclass(frozen=True)
class Kind:
    """The pairs (P, 2) of one kind to one question: whether they match, `labels` (P,) bool, whether each is of the
    `nearest` (P,) or drawn at random, logits (P, Q) as they are held against their rivals, and what closer looks saw
    of those that may be copies, None of the others.
    """

    name: str
    question: str
    pictures: int
    pairs: np.ndarray
    logits: np.ndarray
    labels: np.ndarray
    nearest: np.ndarray
    seen: list[Evidence | None]

    def answers(self) -> Answers:
        """The nearest pairs as the answers to which a calibration after a look is fitted."""
        places = np.flatnonzero(self.nearest).tolist()
        return Answers(self.logits[self.nearest], self.labels[self.nearest], [self.seen[place] for place in places])

    def closer(self, relevance: np.ndarray) -> Pairs:
        """The nearest pairs, of a `relevance` (P,) by the network alone, as those to which a closer look is fitted."""
        near = self.nearest
        seen = [self.seen[place] for place in np.flatnonzero(near).tolist()]
        return Pairs(self.name, self.pictures, self.pairs[near], relevance[near], seen, self.labels[near], missed=0)


def measure_calibration(
    runtime: Runtime,
    directory: Path,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    begin: Callable[[str], Callable[[int], object]] = lambda kind: lambda n: None,
) -> dict[str, Any]:
    """Measure both questions, or the only one, on every kind prepared in `directory/sets` (`planted`), each left out of
    its own fit; `one_sided` names the kinds whose known pairs to a question all match, or none does: these say nothing.
    Raises `DataError` for unknown kinds, and for fewer than two that say something.
    """
    measured: dict[str, list[Kind]] = {question: [] for question in runtime.questions}
    one_sided = []
    for planted in open_kinds(kinds, folder, directory / "sets"):
        examined = Examined(runtime, planted, begin(planted.kind))
        for question, found in measured.items():
            pairs = _known_pairs(examined, question)
            if pairs is None:
                one_sided.append({"kind": planted.kind, "question": question})
            else:
                found.append(pairs)
    for question, found in measured.items():
        if len(found) < 2:
            raise DataError(
                f"{len(found)} of the {len(kinds)} kinds have both matches and others to {question!r} among the "
                "nearest pictures, and each is measured by the others: name more, or a model that has learnt more"
            )
    released = runtime.manifest.questions
    fits: dict[str, dict[str, Question]] = {}
    rows = [measure_left_out(one, measured, released, fits) for found in measured.values() for one in found]
    return {
        "model": runtime.name,
        "revision": runtime.revision,
        "kinds": sorted(rows, key=lambda row: -row["ece"]),
        "one_sided": one_sided,
    }


def _known_pairs(examined: Examined, question: str) -> Kind | None:
    planted = examined.planted
    near, drawn = examined.find_nearest(question, NEAREST), random_pairs(planted)
    pairs = np.concatenate([near, drawn[~planted.is_match(drawn, question)]])
    nearest = np.arange(len(pairs)) < len(near)
    known = ~planted.is_unknown(pairs, question)
    pairs, nearest = pairs[known], nearest[known]
    labels = planted.is_match(pairs, question)
    if labels[nearest].all() or not labels[nearest].any():
        return None
    answers = answers_of(examined, ask_for_looks(examined.runtime.manifest.questions), question, pairs, labels)
    return Kind(planted.kind, question, len(planted.names), pairs, answers.logits, labels, nearest, answers.seen)


def _fit_questions(kinds: Mapping[str, Sequence[Kind]], released: Mapping[str, Question]) -> dict[str, Question]:
    """The questions as they are fitted to kinds by question: scale and offset, and what a closer look says of the pairs
    that deserve one by the `released` scale and offset.
    """
    asked = {}
    for column, (question, found) in enumerate(kinds.items()):
        near = [kind.answers() for kind in found]
        logits, labels = [one.logits[:, column] for one in near], [one.labels for one in near]
        line = fit_calibration(np.concatenate(logits), np.concatenate(labels), weights_of_parts(labels))
        asked[question] = Question(scale=line["scale"], offset=line["offset"])
        if question == COPY:
            alone = [asked[COPY].relevance(kind.logits[:, column]).astype(np.float64) for kind in found]
            looks = [kind.closer(relevance) for kind, relevance in zip(found, alone, strict=True)]
            worth = float(asked[COPY].relevance(released[COPY].logit(ABOVE)))
            asked[COPY] = replace(asked[COPY], verification=fit_verification(looks, worth))
    if COPY in asked and THING in asked:
        asked[THING] = fit_after_look(asked, [kind.answers() for kind in kinds[THING]])
    return asked


def measure_left_out(
    one: Kind,
    measured: Mapping[str, Sequence[Kind]],
    released: Mapping[str, Question],
    fits: dict[str, dict[str, Question]] | None = None,
) -> dict[str, Any]:
    """One kind with a fit to the others: error, reliability, and each rate beside what passes here. `fits` keeps it by
    the kind's name for the other question.
    """
    fits = {} if fits is None else fits
    kinds = {question: [kind for kind in found if kind.name != one.name] for question, found in measured.items()}
    if one.name not in fits:
        fits[one.name] = _fit_questions(kinds, released)
    fitted, others = fits[one.name], kinds[one.question]

    def answers(kind: Kind) -> np.ndarray:
        return question_probabilities(fitted, kind.logits, kind.seen)[kind.question]

    here, there = answers(one), [answers(other) for other in others]
    rates: dict[str, dict[str, dict[str, float]]] = {}
    for name in NEGATIVES:
        of = [
            (values, other.labels, other.nearest == (name == "nearest"))
            for values, other in zip(there, others, strict=True)
        ]
        strangers = np.concatenate([values[chosen & ~known] for values, known, chosen in of])
        thresholds = fit_thresholds(strangers, np.zeros(len(strangers), bool), RATES)
        mine = here[(one.nearest == (name == "nearest")) & ~one.labels]
        rates[name] = {
            rate: {"threshold": bar, "measured": float((mine >= bar).mean())} for rate, bar in thresholds.items()
        }
    counted = _measure_reliability(here[one.nearest], one.labels[one.nearest])
    return {
        "kind": one.name,
        "question": one.question,
        "pictures": one.pictures,
        "pairs": int(one.nearest.sum()),
        "matches": int((one.labels & one.nearest).sum()),
        "ece": counted.error,
        "bins": [
            {"confidence": float(c), "frequency": float(f), "weight": float(w)}
            for c, f, w in zip(counted.confidence, counted.frequency, counted.weight, strict=True)
            if w
        ],
        "rates": rates,
    }


def _measure_reliability(relevance: np.ndarray, labels: np.ndarray) -> Reliability:
    return measure_reliability(relevance, labels, even_weights(labels))


def calibration_text(result: Mapping[str, Any]) -> str:
    """A row for every kind and question, the worst first."""
    columns = [(name, str(rate)) for name in NEGATIVES for rate in RATES]
    head = ["kind", "question", "pairs", "matches", "ECE", *(f"{name} at {float(rate):.1%}" for name, rate in columns)]
    lines = []
    for row in result["kinds"]:
        cells = [row["kind"], row["question"], row["pairs"], row["matches"], f"{row['ece']:.3f}"]
        for name, rate in columns:
            found = row["rates"][name].get(rate)
            cells.append("-" if found is None else f"{found['measured']:.2%}")
        lines.append(cells)
    return (
        f"{format_table(head, lines)}\nmodel {result['model']} {result['revision']}; each kind with what was fitted to "
        "the others, matches and others weighing the same in the ECE"
        + "".join(
            f"\n{one['kind']}, {one['question']}: not measured, for its known pairs all match or none does"
            for one in result["one_sided"]
        )
    )


def draw_calibration(result: Mapping[str, Any], path: Path) -> None:
    """Draw a reliability diagram for every kind and question, the worst first."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, columns = result["kinds"], 6
    lines = -(-len(rows) // columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(2.1 * columns, 2.3 * lines), squeeze=False)
    for axis in axes.flat[len(rows) :]:
        axis.set_axis_off()
    for axis, row in zip(axes.flat, rows, strict=False):
        _draw_reliability(axis, row)
    figure.supxlabel("probability", fontsize=9)
    figure.supylabel("share of matches, as many matches as others", fontsize=9)
    figure.tight_layout()
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished, format=path.suffix[1:], dpi=110)
    pyplot.close(figure)


def _draw_reliability(axis: Axes, row: Mapping[str, Any]) -> None:
    bins = row["bins"]
    axis.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
    sizes = [6 + 120 * one["weight"] for one in bins]
    axis.plot([one["confidence"] for one in bins], [one["frequency"] for one in bins], color="#0072b2", linewidth=1)
    axis.scatter([one["confidence"] for one in bins], [one["frequency"] for one in bins], sizes, color="#0072b2")
    axis.set_title(f"{row['kind']}, {row['question']}\nECE {row['ece']:.3f}", fontsize=8)
    axis.set_xlim(-0.03, 1.03)
    axis.set_ylim(-0.03, 1.03)
    axis.tick_params(labelsize=7)
