"""Judgements of pairs of pictures: to every question a probability and a verdict, made of the network's logits and the
evidence of a closer look. Every interface reports these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from diptych_runtime.calibration.after_look import AfterLook
from diptych_runtime.calibration.evidence import Evidence, shown_from
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.calibration.verdicts import Verdict, stronger_verdict, verdict, verdict_thresholds
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

    A copy shows the same thing: P(copy) <= P(thing). What a closer look says of the copy says something of the thing.
    """
    seen = [None] * len(logits) if seen is None else seen
    found = {name: one.shown_relevance(logits[:, place], seen) for place, (name, one) in enumerate(questions.items())}
    if COPY in found and THING in found:
        found[THING] = np.maximum(_thing_probabilities(questions, logits, seen, found), found[COPY])
    return found


def _thing_probabilities(
    questions: Mapping[str, Question],
    logits: np.ndarray,
    seen: Sequence[Evidence | None],
    found: Mapping[str, np.ndarray],
) -> np.ndarray:
    """The probabilities float64 (P,) that pairs show the same thing.

    They are those of the network alone where a model says nothing else, or a look was deserved and not taken.
    """
    after = questions[THING].after_look
    if after is None:
        return found[THING]
    own = logits[:, list(questions).index(THING)]
    alone = _copy_probabilities(questions, logits)
    worth, looked, laid = pairs_with_look(questions, logits, seen, after)
    things = np.where(worth & ~looked, found[THING], after.relevance_apart(own, alone, looked))
    over = [evidence for evidence, which in zip(seen, laid.tolist(), strict=True) if evidence is not None and which]
    things[laid] = after.relevance(alone[laid], over)
    limits = [evidence.blank_limit if evidence is not None and evidence.is_blank else 1.0 for evidence in seen]
    return np.minimum(things, limits)


def pairs_with_look(
    questions: Mapping[str, Question], logits: np.ndarray, seen: Sequence[Evidence | None], after: AfterLook
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pairs with logits (P, Q) whose closer look says something of the thing, bool (P,).

    With them come those that got a look, and those of these that could be laid over each other, bool (P,) each.
    """
    worth = needs_closer_look(questions, logits, COPY) & after.look_matters(_copy_probabilities(questions, logits))
    looked = worth & np.array([evidence is not None for evidence in seen], bool)
    return (
        worth,
        looked,
        looked & np.array([evidence is not None and evidence.is_registered for evidence in seen], bool),
    )


def _copy_probabilities(questions: Mapping[str, Question], logits: np.ndarray) -> np.ndarray:
    """The probabilities (P,) of a copy by the network alone."""
    return questions[COPY].relevance(logits[:, list(questions).index(COPY)])


def needs_closer_look(
    questions: Mapping[str, Question], logits: np.ndarray, asked: str | None = None, most: int | None = None
) -> np.ndarray:
    """Which pairs with logits (P, Q) need a closer look, bool (P,).

    It is for the answer to the question that is `asked`, or to all of them; with `most` only the likeliest so many.
    For *copy* it is what the network takes for copies. For *thing* it is the same where the look says something of the
    thing (`Question.after_look`), else as much of it as the network alone does not call the same.
    """
    worth = np.zeros(len(logits), bool)
    for place, (name, one) in enumerate(questions.items()):
        if one.verification is None or (asked is not None and name not in (asked, COPY)):
            continue
        above = one.verification.needs_look(one.relevance(logits[:, place]))
        if asked is not None and asked != name and questions[asked].after_look is None:
            above &= _not_called_same(questions, logits, asked)
        worth |= above
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
        says = (
            np.ones(len(held), bool)
            if one.after_look is None
            else one.after_look.look_matters(_copy_probabilities(questions, held))
        )
        made[name] = [
            Judgement(float(relevance), float(raw), _verdict_after(one, relevance, look if counts else None), look)
            for relevance, raw, look, counts in zip(shown[name], logits[:, place], looks, says.tolist(), strict=True)
        ]
    if COPY in made and THING in made:
        made[THING] = [_raise_to_copy(questions[THING], *both) for both in zip(made[THING], made[COPY], strict=True)]
    for answers in made.values():
        for place in [] if same is None else np.flatnonzero(same).tolist():
            answers[place] = Judgement(1.0, answers[place].raw_score, "same")
    return made


def _not_called_same(questions: Mapping[str, Question], logits: np.ndarray, name: str) -> np.ndarray:
    """Which pairs the network alone does not call the same, bool (P,)."""
    one, place = questions[name], list(questions).index(name)
    return one.relevance(logits[:, place]) < verdict_thresholds(one.effective_thresholds)["same"]


def _look_state(deserved: bool, evidence: Evidence | None) -> CloserLook | None:
    if not deserved:
        return None
    return "not taken" if evidence is None else "taken"


def _verdict_after(one: Question, relevance: float, look: CloserLook | None) -> Verdict:
    """The verdict of a pair; without the look that it needs, by the thresholds of the network alone."""
    if look == "not taken" and one.after_look is not None:
        return verdict(relevance, one.thresholds)
    return one.verdict(relevance)


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
