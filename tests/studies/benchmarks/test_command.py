import pytest

from diptych.errors import BenchError
from diptych_studies.benchmarks.command import run_command


def test_a_command_gives_its_output() -> None:
    ticks: list[int] = []
    assert "photo-small" in run_command("models", "list", "--json")
    assert run_command("doctor", "--json", tick=lambda: ticks.append(1))
    assert ticks


def test_a_command_that_fails_ends_it_with_its_words_and_variables_reach_it() -> None:
    with pytest.raises(BenchError, match=r"`diptych score` ended with 1: a\.jpg does not exist$"):
        run_command("score", "a.jpg", "b.jpg", "--json")
    with pytest.raises(BenchError, match=r"`diptych index` ended with \d: .*/nowhere"):
        run_command("index", "stats", environment={"DIPTYCH_STORE": "/nowhere"})
