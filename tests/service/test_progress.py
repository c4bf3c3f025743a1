"""The progress of a command whose standard error is no terminal. That of one with a terminal: test_console."""

import pytest

from diptych import progress
from diptych.console import Console


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, as `clock[0]`, which only a test moves."""
    now = [1000.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_a_file_gets_a_line_each_half_minute_and_one_at_the_end(clock, capsys):
    with Console().progress(total=12_000, unit="pair", desc="scoring", initial=2000) as bar:
        for _ in range(9):
            clock[0] += 10
            bar.update(1000)
    assert capsys.readouterr().err.splitlines() == [
        "scoring: 5,000/12,000 pairs, 100.0/s, 0:01:10 left",
        "scoring: 8,000/12,000 pairs, 100.0/s, 0:00:40 left",
        "scoring: 11,000/12,000 pairs, 100.0/s, 0:00:10 left",
        "scoring: 11,000/12,000 pairs, 100.0/s, stopped after 0:01:30",
    ]


def test_what_is_over_within_half_a_minute_says_nothing(clock, capsys):
    for _ in Console().progress(range(29), unit="step"):
        clock[0] += 1
    assert capsys.readouterr().err == ""


def test_a_bar_of_which_little_is_known_says_that(clock, capsys):
    with Console().progress(unit="picture") as bar:
        bar.leave = False
        clock[0] += 31
        bar.describe("[loss] 0.25")
        clock[0] += 31
        bar.update()
        clock[0] += 3600
        bar.set_total(1)
        bar.update(0)
    assert capsys.readouterr().err.splitlines() == [
        "[loss] 0.25: 0 pictures",
        "[loss] 0.25: 1 picture",
        "[loss] 0.25: 1/1 picture, 0:00:00 left",
    ]
