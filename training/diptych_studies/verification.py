"""`diptych study verification`: what a closer look makes of the pairs that a model takes for copies, kind by kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import format_table
from diptych_model.checkpoint import CONFIG
from diptych_runtime.atomic import write_atomic
from diptych_runtime.calibration.evidence import Verification
from diptych_runtime.calibration.false_discovery import discovery_threshold, joining_scores
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.calibration.reliability import expected_calibration_error
from diptych_runtime.manifest import MANIFEST
from diptych_runtime.models import CHECKPOINT
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.fitting import (
    Answers,
    Pairs,
    answers_of,
    ask_for_looks,
    fit_after_look,
    fit_verification,
    look_closer,
)
from diptych_studies.kinds.negatives import fit_negatives, others_of
from diptych_studies.kinds.planted import KINDS, add_odd_copies, open_kinds
from diptych_training.errors import DataError
from diptych_training.learning.calibration import NEAREST, even_weights

AFTER_LOOK = ("after_look", "thresholds")  # of the question of the thing, which are fitted


def study_verification(
    runtime: Runtime,
    directory: Path,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    begin: Callable[[str], Callable[[int], object]] = lambda kind: lambda n: None,
) -> dict[str, Any]:
    """Look closer in every kind, fit `verification` to all, and report for each the rates of a fit to the others, at
    the thresholds stated and at that of `dedupe`, *auto*, and the thresholds with which the `negatives` of all kinds
    pass.

    Raises `DataError` for unknown kinds, and for fewer than two.
    """
    questions = dict(runtime.manifest.questions)
    copy = runtime.asking(COPY).question
    opened = open_kinds(kinds, folder, directory / "sets")
    all_examined = [Examined(runtime, add_odd_copies(planted), begin(planted.kind)) for planted in opened]
    fitted, rows = _fit_all_kinds([look_closer(examined) for examined in all_examined])
    questions[copy] = replace(questions[copy], verification=fitted)
    if THING in questions:
        questions[THING] = fit_after_look(questions, [_label_things(examined) for examined in all_examined])
    others = [others_of(examined, questions) for examined in all_examined]
    return {
        "model": runtime.name,
        "revision": runtime.revision,
        "verification": asdict(questions[copy])["verification"],
        "thing": {key: asdict(questions[THING])[key] for key in AFTER_LOOK} if THING in questions else {},
        "negatives": fit_negatives(questions, others),
        "kinds": rows,
    }


def _fit_all_kinds(sets: Sequence[Pairs]) -> tuple[Verification, list[dict[str, Any]]]:
    """Fit a verification to all kinds, and measure it on each.

    The row of a kind is measured with a fit to the others.
    """
    rows = [measure_kind(fit_verification([other for other in sets if other is not one]), one) for one in sets]
    return fit_verification(sets), rows


def _label_things(examined: Examined) -> Answers:
    """The nearest pairs of which it is known whether they show the same thing."""
    pairs = examined.find_nearest(THING, NEAREST)
    pairs = pairs[~examined.planted.is_unknown(pairs, THING)]
    questions = ask_for_looks(examined.runtime.manifest.questions)
    return answers_of(examined, questions, THING, pairs, examined.planted.is_match(pairs, THING))


def save_verification(result: Mapping[str, Any], model: Path) -> None:
    """Write the fitted verification into the description of a checkpoint, from where its next export takes it, or of an
    artifact and of the checkpoint in it; the graphs and the revision stay. Raises `DataError` (`read_descriptions`).
    """
    for path, values in read_descriptions(model).items():
        questions = _find_questions(values)
        questions[COPY]["verification"] = result["verification"]
        questions.get(THING, {}).update(result["thing"])
        for question, known in questions.items():
            known["negatives"] = result["negatives"].get(question, {})
        write_atomic(path, (json.dumps(values, indent=2) + "\n").encode())


def read_descriptions(model: Path) -> dict[Path, dict[str, Any]]:
    """Read the descriptions of a checkpoint, or of an artifact.

    Those of an artifact include that of the checkpoint in it. Raises `DataError` for what is neither, and for a model
    that does not know of copies.
    """
    paths = [path for path in (model / MANIFEST, model / CHECKPOINT / CONFIG, model / CONFIG) if path.is_file()]
    if not paths:
        raise DataError(f"{model} is neither a checkpoint nor an artifact: it has no {CONFIG} and no {MANIFEST}")
    found = {}
    for path in paths:
        try:
            found[path] = json.loads(path.read_text("utf-8"))
            known = COPY in _find_questions(found[path])
        except (ValueError, AttributeError, TypeError) as error:
            raise DataError(f"{path} is damaged: {error}") from None
        if not known:
            raise DataError(f"{path.parent} has no calibrated question {COPY!r} that a closer look could belong to")
    return found


def _find_questions(values: dict[str, Any]) -> dict[str, Any]:
    return values.get("metadata", values).get("questions", {})


def measure_kind(verification: Verification, pairs: Pairs) -> dict[str, Any]:
    """Measure the errors and rates of a verification on one kind, at its own thresholds and that of `dedupe`, *auto*.

    It was fitted to other kinds; every pair counts by itself.
    """
    relevance, looked = pairs.judge_pairs(verification), pairs.has_look
    thresholds = dict(verification.thresholds)
    auto = discovery_threshold(joining_scores(pairs.found, relevance), pairs.pictures)
    both = [_measure_calibration_error(values, pairs.copies) for values in (pairs.relevance, relevance)]
    return {
        "kind": pairs.kind,
        "pictures": pairs.pictures,
        "copies": int(pairs.copies.sum()) + pairs.missed,
        "looked_at": int(looked.sum()),
        "others_looked_at": int((looked & ~pairs.copies).sum()),
        "ece_before": both[0],
        "ece": both[1],
        "at": rates_of(pairs, relevance, thresholds | {"auto": auto}),
    }


def rates_of(pairs: Pairs, relevance: np.ndarray, thresholds: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The share of a kind's copies that reach each threshold, and of its pictures that are taken for a copy of another
    there.
    """
    planted = int(pairs.copies.sum()) + pairs.missed
    at = {}
    for rate, bar in thresholds.items():
        passed = relevance >= bar
        wrong = np.unique(pairs.found[passed & ~pairs.copies])
        found = int((passed & pairs.copies).sum())
        at[rate] = {"found": found / max(planted, 1), "wrong_pictures": len(wrong) / pairs.pictures}
    return at


def _measure_calibration_error(relevance: np.ndarray, copies: np.ndarray) -> float | None:
    """The expected calibration error, copies and others weighing the same; None where one is missing."""
    if copies.all() or not copies.any():
        return None
    return expected_calibration_error(relevance, copies, even_weights(copies))


def verification_text(result: Mapping[str, Any]) -> str:
    """The kinds as a table, each with a closer look that was fitted to the others, and pairs as they are together."""
    rates = [*result["verification"]["thresholds"], "auto"]
    head = ["kind", "pictures", "copies", "looked at", "ECE before", "after"]
    head += [f"{what} at {rate}" for rate in rates for what in ("found", "wrong pictures")]
    lines = []
    for one in result["kinds"]:
        figures = [one["at"].get(rate) for rate in rates]
        cells = [one["kind"], one["pictures"], one["copies"], one["looked_at"]]
        cells += ["-" if one[key] is None else f"{one[key]:.3f}" for key in ("ece_before", "ece")]
        for figure in figures:
            cells += [f"{figure['found']:.3f}", f"{figure['wrong_pictures']:.3f}"] if figure else ["-", "-"]
        lines.append(cells)
    negatives = negatives_text(result["negatives"])
    return f"{format_table(head, lines)}\n{negatives}\nmodel {result['model']} {result['revision']}"


def negatives_text(negatives: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Thresholds by question and sort of negatives, a line each."""
    return "\n".join(
        f"{question}, {sort} negatives: " + (", ".join(f"{bar:.7f} at {rate}" for rate, bar in stated.items()) or "-")
        for question, sorts in negatives.items()
        for sort, stated in sorts.items()
    )
