"""Labelling in a terminal: two paths and a question, a line for the answer; and a calibration in words."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from diptych.collection.collection import Collection
from diptych.console import format_count, one_line
from diptych.dedupe.find import OnPairs
from diptych.dedupe.pair_cache import PairCache
from diptych.errors import UnknownPictureError
from diptych.labelling.calibrate import Fitted, FittedQuestion
from diptych.labelling.choose import PairToLabel, pairs_to_label
from diptych.store.records import Answer, Record
from diptych_runtime.decoder import SUFFIXES
from diptych_runtime.errors import PictureError

KEYS = "s same, d not the same, ? cannot tell, u undo, o open both, q quit"

_BATCH = 10
_ANSWERS: Mapping[str, Answer] = {
    **dict.fromkeys(("s", "same", "y", "yes", "1"), "same"),
    **dict.fromkeys(("d", "different", "n", "no", "0"), "different"),
    **dict.fromkeys(("?", "cannot tell"), "cannot tell"),
}
_ASK = {
    "copy": "Is one a copy of the other, or are both copies of a third?",
    "thing": "Do both show the same thing?",
}
_NAMES = {"same": "same", "different": "not the same", "cannot tell": "cannot tell"}


class Dialogue:
    """A person labelling pairs of a collection, line by line; every answer is kept at once."""

    def __init__(
        self,
        collection: Collection,
        question: str,
        *,
        ask: Callable[[str], str],
        say: Callable[[str], object],
        show: Callable[[str], object],
        choosing: Callable[[], AbstractContextManager[OnPairs]],
        ledger: PairCache | None = None,
    ) -> None:
        """`ask` reads a line after a prompt, and raises EOFError at the end; `say` writes one; `show` opens a copy;
        `choosing` is open while pairs are chosen, which may take a minute, and is told how many are scored.
        """
        self.collection, self.question, self.ledger, self.choosing = collection, question, ledger, choosing
        self.ask, self.say, self.show = ask, say, show
        self.given: list[tuple[PairToLabel, Answer]] = []

    def run(self, most: int | None = None) -> int:
        """Ask about pairs until there are none left, the person has had enough or `most` answers; return how many."""
        queue = self._choose_pairs()
        if queue:
            self.say(f"{_ASK.get(self.question, _ASK['copy'])} ({KEYS})")
        while most is None or len(self.given) < most:
            queue = queue or self._choose_pairs()
            if not queue:
                self.say("There are no more pairs worth asking about.")
                break
            words = self._ask_answer(queue[0])
            if words == "q":
                break
            if words == "u":
                queue = [*self._undo_answer(), *queue]
                continue
            self._keep_answer(queue.pop(0), _ANSWERS[words])
        return len(self.given)

    def describe_counts(self) -> str:
        """Describe in words how many labels the question has."""
        answers = [label.answer for label in self.collection.labels(self.question)]
        each = ", ".join(f"{answers.count(answer)} {name}" for answer, name in _NAMES.items())
        return f"{format_count(len(answers), 'label')}: {each}"

    def _choose_pairs(self) -> list[PairToLabel]:
        with self.choosing() as begin:
            return pairs_to_label(self.collection, _BATCH, question=self.question, ledger=self.ledger, on_pairs=begin)

    def _ask_answer(self, pair: PairToLabel) -> str:
        """Show a pair and return the answer, or q or u."""
        self.say(f"\n  {_describe_place(pair.a)}\n  {_describe_place(pair.b)}")
        while True:
            try:
                words = self.ask("s/d/?/u/o/q: ").strip().lower()
            except EOFError:
                return "q"
            if words in _ANSWERS or words in ("q", "u"):
                return words
            if words == "o":
                for record in (pair.a, pair.b):
                    self._open_picture(record)
            else:
                self.say(f"Expected one of: {KEYS}")

    def _keep_answer(self, pair: PairToLabel, answer: Answer) -> None:
        self.collection.label(pair.a.id, pair.b.id, answer, question=self.question)
        self.given.append((pair, answer))

    def _undo_answer(self) -> list[PairToLabel]:
        """Take back the last answer of this run; return its pair."""
        if not self.given:
            self.say("There is nothing to undo in this run.")
            return []
        pair, answer = self.given.pop()
        self.collection.take_back_label(pair.a.id, pair.b.id, question=self.question)
        self.say(f"Taken back: {_NAMES[answer]}.")
        return [pair]

    def _open_picture(self, record: Record) -> None:
        # A copy, never the path: a store may be a stranger's, and what lies there a program.
        try:
            data, kind = self.collection.content(record.id)
            self.collection.thumbnail(record.id, 1)  # which only a picture has
        except (UnknownPictureError, PictureError) as error:
            self.say(one_line(str(error)))
            return
        ending = f".{kind.partition('/')[2]}"
        with tempfile.NamedTemporaryFile(
            prefix="diptych-", suffix=ending if ending in SUFFIXES else ".jpg", delete=False
        ) as file:
            file.write(data)
        self.show(file.name)


def calibration_text(fitted: Fitted) -> str:
    """A calibration in words: the calibration error before and after, and the thresholds."""
    taken = fitted.calibration.questions
    parts = [_question_text(name, fit, taken=name in taken) for name, fit in fitted.questions.items()]
    parts += [f"{name}: as released, for it {reason}" for name, reason in fitted.left_out.items()]
    if fitted.cannot_tell:
        parts.append(f"left out: {format_count(fitted.cannot_tell, 'label')} with the answer cannot tell")
    return "\n".join(parts)


def calibration_json(fitted: Fitted) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "questions": {
            name: {
                "labels": {"same": fit.own.same, "different": fit.own.different},
                "scale": fit.own.scale,
                "offset": fit.own.offset,
                "ece": {"released": fit.reliability_before.error, "calibrated": fit.reliability_after.error},
                "gain": list(fit.gain),
                "better": fit.is_better,
                "calibrated": name in fitted.calibration.questions,
                "verdicts": {
                    verdict: {
                        "probability": level.level,
                        "released": level.released,
                        "interval": list(level.interval),
                    }
                    for verdict, level in fit.levels.items()
                },
            }
            for name, fit in fitted.questions.items()
        },
        "left_out": fitted.left_out,
        "cannot_tell": fitted.cannot_tell,
    }


def _describe_place(record: Record) -> str:
    name = record.path or f"{record.metadata.get('filename', 'a picture without a path')} ({record.id})"
    return one_line(name)


def _question_text(name: str, fit: FittedQuestion, *, taken: bool) -> str:
    own, (gain, low, high) = fit.own, fit.gain
    worth = "better" if fit.is_better else "worse" if high < 0 else "not told apart from the release by these labels"
    lines = [
        f"{name}: {format_count(own.same, 'label')} same, {own.different} different",
        f"  expected calibration error {fit.reliability_before.error:.3f} as released, "
        f"{fit.reliability_after.error:.3f} calibrated (cross-validated)",
        f"  log-loss of a pair changes by {-gain:+.3f} ({-high:+.3f} to {-low:+.3f}; less is better): {worth}",
    ]
    for verdict, level in fit.levels.items():
        lines.append(
            f"  {verdict} from {level.level:.4g}, which was {level.released:.4g} as released "
            f"({level.interval[0]:.4g} to {level.interval[1]:.4g})"
        )
    if not taken:
        lines.append("  stays as released")
    return "\n".join(lines)
