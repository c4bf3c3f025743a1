"""Faults that a collection must survive, nothing acknowledged lost and nothing false returned: see docs/faults.md."""

from pathlib import Path

import pytest
from campaign import survived

PROGRAM = Path(__file__).with_name("torture.py")
KILLS = {
    "kill-adds",
    "kill-removes",
    "kill-saves",
    "kill-rebuilds",
    "kill-backups",
    "kill-restores",
    "kill-repairs",
    "half-written",
}
SEEN = {"file-limit", "flip-cache", "flip-manifest", "flip-database", "flip-model", "read-only", "second-writer"}
UNSEEN = {"clock", "without-lock"}


def rows_of(artifact: Path, environment: dict[str, str], *arguments: object) -> list[list[str]]:
    """The rows that the program printed; without those of faults that cannot be made here."""
    rows, code = survived(PROGRAM, environment, "--model", artifact, *arguments)
    assert {fault for fault, *_ in rows} - {"full-disk"} == KILLS | SEEN | UNSEEN
    assert (len(rows) == 18) == (code == 0), "only a small disk may be what cannot be had"
    return rows


def test_every_fault_is_survived_for_a_cycle(artifact, environment):
    for fault, cycles, *_, lost, false in rows_of(artifact, environment, "--cycles", 1, "--seed", 1):
        assert (cycles, lost, false) == ("1", "0", "0"), fault


def test_what_happens_to_an_index_in_lists_is_survived_too(artifact, environment):
    faults = ["kill-saves", "kill-repairs", "half-written", "flip-cache", "flip-manifest"]
    command = ["--model", artifact, "--cycles", 1, "--seed", 1, "--index", "ivf", *faults]
    rows, _ = survived(PROGRAM, environment, *command)
    assert [(fault, cycles, lost, false) for fault, cycles, *_, lost, false in rows] == [
        (fault, "1", "0", "0") for fault in faults
    ]


@pytest.mark.slow
@pytest.mark.parametrize("index", ["exact", "ivf"])
def test_every_fault_is_survived_many_times_and_those_that_can_be_noticed_are(artifact, environment, index):
    rows = rows_of(artifact, environment, "--cycles", 6, "--seed", 2, "--index", index)
    for fault, _, acknowledged, noticed, lost, false in rows:
        assert (lost, false) == ("0", "0")
        assert int(acknowledged) > 0 or fault == "flip-model"
        assert int(noticed) > 0 or fault in KILLS | UNSEEN
