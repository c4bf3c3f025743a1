"""Judgements of pairs of pictures: to every question a probability and a verdict, made of the network's logits and the
evidence of a closer look. Every interface reports these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from diptych_runtime.calibration.evidence import Evidence, shown_from
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.calibration.verdicts import Verdict, stronger_verdict, verdict_thresholds
from diptych_runtime.manifest import Question

CloserLook = Literal["taken", "not taken"]
CLOSER_LOOKS = 100  # of a search, at most: a few seconds
MORE_LOOKS = 10  # Extra candidates to look at: a look that finds nothing demotes one, and another takes its place.
NOT_TAKEN = "a copy is likely at most without a closer look"


@dataclass(frozen=True)
class Judgement:
    """The judgement of a pair for one question: the probability in [0, 1], the logit that the network gave, and the
    verdict. `closer_look` says whether the closer look that the pair deserves was *taken* or, for want of a file, *not
    taken*; None where it deserves none.
    """

    relevance_score: float
    raw_score: float
    verdict: Verdict
    closer_look: CloserLook | None = None


def question_probabilities(
    questions: Mapping[str, Question], logits: np.ndarray, seen: Sequence[Evidence | None] | None = None
) -> dict[str, np.ndarray]:
    """The probabilities float64 (P,) of pairs by question, from their logits (P, Q) and the evidence of a look.

    A copy shows the same thing: P(copy) <= P(thing).
    """
    seen = [None] * len(logits) if seen is None else seen
    found = {name: one.shown_relevance(logits[:, place], seen) for place, (name, one) in enumerate(questions.items())}
    if COPY in found and THING in found:
        if (after := questions[THING].after_look) is not None:
            copies = questions[COPY].relevance(logits[:, list(questions).index(COPY)])
            found[THING] = after.relevance(found[THING], copies, seen)
        limits = [1.0 if evidence is None else evidence.highest_probability for evidence in seen]
        found[THING] = np.maximum(np.minimum(found[THING], limits), found[COPY])
    return found


def needs_closer_look(
    questions: Mapping[str, Question], logits: np.ndarray, asked: str | None = None, most: int | None = None
) -> np.ndarray:
    """Which pairs with logits (P, Q) need a closer look, bool (P,).

    Whatever is asked, it is what the network takes for copies, unless the model knows other questions alone; with
    `most` only the likeliest so many by the question that is `asked`.
    """
    worth = np.zeros(len(logits), bool)
    for place, (name, one) in enumerate(questions.items()):
        if one.verification is not None and (asked is None or name in (asked, COPY)):
            worth |= one.verification.needs_look(one.relevance(logits[:, place]))
    if most is not None:
        likely = np.where(worth, logits[:, list(questions).index(asked)] if asked else logits.max(1), -np.inf)
        worth[np.argsort(-likely, kind="stable")[most:]] = False
    return worth


def select_competing(questions: Mapping[str, Question], logits: np.ndarray, asked: str, top: int) -> np.ndarray:
    """Which pairs with logits (P, Q) compete for the `top` places, bool (P,).

    Those are the `top` likeliest by the question `asked` that need no closer look, and `MORE_LOOKS` more of those that
    do.
    """
    likeliest = np.argsort(-logits[:, list(questions).index(asked)], kind="stable")
    worth = needs_closer_look(questions, logits, asked)[likeliest]
    judged = np.zeros(len(logits), bool)
    judged[likeliest[~worth][:top]] = True
    judged[likeliest[worth][: top + MORE_LOOKS]] = True
    return judged


def judge_pairs(
    questions: Mapping[str, Question],
    logits: np.ndarray,
    seen: Sequence[Evidence | None] | None = None,
    *,
    held: np.ndarray | None = None,
    same: np.ndarray | None = None,
) -> dict[str, list[Judgement]]:
    """The judgements by question of pairs with logits (P, Q) and the evidence of a closer look.

    `held` (P, Q) are the logits normalised against their rivals, if there are any. What is called a copy after a
    closer look is called the same thing too. Pairs of the `same` file, bool (P,), are the same to every question, and
    deserve no look.
    """
    held = logits if held is None else held
    seen = [None] * len(logits) if seen is None else seen
    shown = question_probabilities(questions, held, seen)
    made: dict[str, list[Judgement]] = {}
    for place, (name, one) in enumerate(questions.items()):
        worth = needs_closer_look(questions, held, name).tolist()
        looks: list[CloserLook | None] = [
            _look_state(deserved, evidence) for deserved, evidence in zip(worth, seen, strict=True)
        ]
        made[name] = [
            Judgement(float(relevance), float(raw), one.verdict(relevance), look)
            for relevance, raw, look in zip(shown[name], logits[:, place], looks, strict=True)
        ]
    if COPY in made and THING in made:
        made[THING] = [_raise_to_copy(questions[THING], *both) for both in zip(made[THING], made[COPY], strict=True)]
    for answers in made.values():
        for place in [] if same is None else np.flatnonzero(same).tolist():
            answers[place] = Judgement(1.0, answers[place].raw_score, "same")
    return made


def _look_state(deserved: bool, evidence: Evidence | None) -> CloserLook | None:
    if not deserved:
        return None
    return "not taken" if evidence is None else "taken"


def _raise_to_copy(question: Question, thing: Judgement, copy: Judgement) -> Judgement:
    """The judgement of the *thing* of a pair, raised to that of its copy.

    With a verdict the probability rises to where that begins, or a score would contradict the thresholds that are
    stated beside it.
    """
    said = stronger_verdict(thing.verdict, copy.verdict)
    if copy.closer_look == "not taken" or said == thing.verdict:
        return thing
    stated = verdict_thresholds(question.effective_thresholds)[said]
    return replace(thing, verdict=said, relevance_score=max(thing.relevance_score, shown_from(stated)))
