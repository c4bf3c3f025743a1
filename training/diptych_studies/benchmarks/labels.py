"""`diptych bench labels`: the worth of a person's labels, answered from known truth on the pairs that `label` chooses.

The pictures are divided by what they show: half is labelled, and the calibration that is fitted to the labels is
measured on the nearest pairs of the other half.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from diptych.bench.model import find_processor
from diptych.collection.collection import Collection
from diptych.dedupe.candidates import candidate_pairs
from diptych.errors import BenchError
from diptych.labelling.calibrate import calibrate_collection
from diptych.labelling.choose import pairs_to_label
from diptych.scoring.scorer import Scorer
from diptych_runtime.decoder import PictureSource
from diptych_runtime.judgement import needs_closer_look, question_probabilities
from diptych_runtime.manifest import digest
from diptych_studies.benchmarks.label_figures import Pairs, figures, gains

NEAREST = 10  # pictures that each held-out one is paired with


@dataclass(frozen=True)
class Setting:
    """A measurement: the `classes` of pictures by path, the `question`, how many `labels`, and the `model`."""

    classes: Mapping[str, str]
    question: str
    labels: int
    model: str
    threads: int


def measure(folder: Path, setting: Setting, say: Callable[[str], object] = lambda _: None) -> dict[str, Any]:
    """The figures for `text`, measured in `folder`. Raises BenchError if a half has no matches."""
    labelled, held_out = halves(setting.classes)
    scorer = Scorer.load(setting.model, setting.question, threads=setting.threads)
    seconds: dict[str, dict[str, float]] = {}

    def timed(name: str, act: Callable[[], Any]) -> Any:
        say(f"{name} ...")
        began, before = perf_counter(), _processor_seconds()
        done = act()
        seconds[name] = {"elapsed": perf_counter() - began, "processor": _processor_seconds() - before}
        return done

    store, other = folder / "labelled", folder / "held-out"
    timed("embedding", lambda: [_fill(store, scorer, labelled), _fill(other, scorer, held_out)])
    counts = timed("choosing", lambda: _label(store, scorer, setting))
    released = timed("looking", lambda: _judged(other, scorer, setting))
    with Collection.open(store, scorer.with_calibration(None), read_only=True) as collection:
        own = timed("calibrating", lambda: calibrate_collection(collection, force=True)).calibration
    calibrated = _judged(other, scorer.with_calibration(own), setting)
    ways = {"released": released, "calibrated": calibrated}
    stated = scorer.runtime.question_settings.effective_thresholds
    return {
        "processor": find_processor(),
        "threads": setting.threads,
        "model": setting.model,
        "question": setting.question,
        "pictures": {"labelled": len(labelled), "held_out": len(held_out)},
        "labels": counts,
        "pairs": len(released.labels),
        "matches": int(released.labels.sum()),
        "ways": {name: figures(way, stated) for name, way in ways.items()},
        "gains": {"calibrated": gains(released, calibrated, stated)},
        "seconds": seconds,
    }


def _processor_seconds() -> float:
    """The seconds that the processor has spent on this process and those that it has waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def halves(classes: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The pictures in two halves, of which no class is in both: by the digest of its name. Raises BenchError where a
    half has no two pictures of one class.
    """
    parts: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for path, name in classes.items():
        parts[int(digest(name.encode()), 16) % 2][path] = name
    for part in parts:
        if len(set(part.values())) == len(part):
            raise BenchError(
                f"{len(classes)} pictures of {len(set(classes.values()))} classes are too few: both halves need two "
                "pictures of one class"
            )
    return parts


def _fill(store: Path, scorer: Scorer, pictures: Mapping[str, str]) -> None:
    with Collection.open(store, scorer, create=True) as collection:
        collection.add(list(pictures))


def _label(store: Path, scorer: Scorer, setting: Setting) -> dict[str, int]:
    """Answer about the pairs that `label` would ask about; return how many are the same and how many are not."""
    with Collection.open(store, scorer) as collection:
        answers = []
        for pair in pairs_to_label(collection, setting.labels, question=setting.question):
            same = setting.classes[str(pair.a.path)] == setting.classes[str(pair.b.path)]
            collection.label(pair.a.id, pair.b.id, "same" if same else "different", question=setting.question)
            answers.append(same)
    return {"same": sum(answers), "different": len(answers) - sum(answers)}


def _judged(store: Path, scorer: Scorer, setting: Setting) -> Pairs:
    """The nearest pairs of a collection with their probabilities, as they are shown, and the truth."""
    with Collection.open(store, scorer, read_only=True) as collection:
        ids, embeddings = collection.embeddings()
        asked = scorer.asking(setting.question).runtime
        pairs = candidate_pairs(embeddings, NEAREST, asked.threads, queries=asked.weight_queries(embeddings))
        found = collection.panels(list(ids))
        tokens = np.stack([found[id][0] for id in ids])
        logits = scorer.all_logits(tokens[pairs[:, 0]], tokens[pairs[:, 1]])

        def original(place: int) -> PictureSource | None:
            return collection.content(ids[place])[0]

        questions = scorer.runtime.manifest.questions
        seen = scorer.look_closer(pairs, needs_closer_look(questions, logits), original)
        named = [setting.classes[str(collection.get(id).path)] for id in ids]
    shown = question_probabilities(questions, logits, seen)[asked.question]
    labels = np.array([named[a] == named[b] for a, b in pairs.tolist()], bool)
    if labels.all() or not labels.any():
        raise BenchError(f"of {len(labels)} nearest pairs that are held out {labels.sum()} match; bring other pictures")
    return Pairs(pairs, shown, labels)
