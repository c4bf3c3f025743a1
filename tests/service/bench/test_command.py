import pytest

from diptych.bench.command import peak, run_command, run_with_peak
from diptych.errors import BenchError


def test_a_command_gives_its_output_and_its_peak_memory() -> None:
    said = run_command("models", "list", "--json")
    assert "photo-small" in said
    same, most = run_with_peak("models", "list", "--json")
    assert same == said
    assert 2**22 < most < 2**30
    assert peak() > 2**22


def test_a_command_that_fails_ends_it_with_its_words_and_what_is_added_to_the_environment_reaches_it() -> None:
    with pytest.raises(BenchError, match=r"`diptych score` ended with 1: .*a\.jpg does not exist"):
        run_command("score", "a.jpg", "b.jpg")
    with pytest.raises(BenchError, match=r"`diptych score` ended with 1: a\.jpg does not exist$"):
        run_command("score", "a.jpg", "b.jpg", "--json")
    with pytest.raises(BenchError, match=r"`diptych index` ended with \d: .*/nowhere"):
        run_command("index", "stats", DIPTYCH_STORE="/nowhere")
