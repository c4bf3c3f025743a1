"""Scorers that wait, fail or err."""

from __future__ import annotations

import threading
import time

from diptych.scoring.scorer import Scorer


class GatedScorer(Scorer):
    """A scorer that scores only while its gate is open."""

    def __init__(self, runtime) -> None:
        super().__init__(runtime)
        self.gate = threading.Event()
        self.gate.set()

    def all_logits(self, tokens_a, tokens_b):
        assert self.gate.wait(30)
        return super().all_logits(tokens_a, tokens_b)


class BrokenScorer(Scorer):
    """A scorer that fails in a way nobody foresaw, while it is `broken`."""

    broken = True

    def all_logits(self, tokens_a, tokens_b):
        if self.broken:
            raise ZeroDivisionError("the secret of the house")
        return super().all_logits(tokens_a, tokens_b)


class WrongScorer(Scorer):
    """A scorer for which two pictures are the more alike the less they are; it was `asked` so many times."""

    asked = 0

    def all_logits(self, tokens_a, tokens_b):
        self.asked += 1
        return -super().all_logits(tokens_a, tokens_b)


def wait_until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass within 20 s"
        time.sleep(0.01)
