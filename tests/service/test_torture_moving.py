"""kill -9 while dedupe moves, undoes and empties: no picture is lost (see docs/faults.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torture_moving

PROGRAM = Path(__file__).with_name("torture_moving.py")


def survived(environment: dict[str, str], cycles: int, seed: int) -> list[list[str]]:
    command = [sys.executable, "-W", "error", str(PROGRAM), "--cycles", str(cycles), "--seed", str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode in (0, torture_moving.CANNOT), done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert {fault for fault, *_ in rows} >= torture_moving.FAULTS.keys() - {"kill-copies"}
    return rows


def test_moving_undoing_and_emptying_survive_a_kill(environment):
    assert all(row[1:] == ["5", row[2], "0", "0"] for row in survived(environment, 5, 1))


@pytest.mark.slow
def test_moving_undoing_and_emptying_survive_many_kills_in_their_middle(environment):
    for _, cycles, moved, *bad in survived(environment, 100, 2):
        assert (cycles, bad) == ("100", ["0", "0"])
        assert 0 < int(moved) <= 100 * torture_moving.GROUPS


def test_a_mover_that_loses_pictures_is_found_out(monkeypatch, tmp_path):
    def lose(plan) -> None:
        for step in plan.steps:
            Path(step.picture.path).unlink()

    monkeypatch.setattr(torture_moving, "carry_out", lose)
    tally = torture_moving.torture("kill-trash", 20, 0, tmp_path)
    assert tally is not None
    assert tally.lost
