"""kill -9 while dedupe moves, undoes and empties: no picture is lost (see docs/faults.md)."""

from __future__ import annotations

from pathlib import Path

import torture_moving
from campaign import survived

DEPENDS_ON = ("service/diptych/dedupe/actions", "service/diptych/pictures")

PROGRAM = Path(__file__).with_name("torture_moving.py")


def rows(environment: dict[str, str], cycles: int, seed: int) -> list[list[str]]:
    found, _ = survived(PROGRAM, environment, "--cycles", cycles, "--seed", seed)
    assert {fault for fault, *_ in found} >= torture_moving.FAULTS.keys() - {"kill-copies"}
    return found


def test_moving_undoing_and_emptying_survive_many_kills_in_their_middle(environment):
    for _, cycles, moved, _, *bad in rows(environment, 40, 2):
        assert (cycles, bad) == ("40", ["0", "0"])
        assert 0 < int(moved) <= 40 * torture_moving.GROUPS * 4 / 3  # a film goes with every third picture


def test_a_mover_that_loses_pictures_is_found_out(monkeypatch, tmp_path):
    def lose(plan) -> None:
        for step in plan.steps:
            Path(step.entry.source).unlink()

    monkeypatch.setattr(torture_moving, "carry_out", lose)
    tally = torture_moving.torture("kill-trash", 20, 0, tmp_path)
    assert tally.lost
