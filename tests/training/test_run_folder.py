"""The folder of a run: begun once, and resumed as it was begun."""

from pathlib import Path

import pytest

from diptych.console import Console
from diptych.progress import ProgressBar
from diptych_training.errors import DataError
from diptych_training.run_folder import RECIPE, begun, counted, require_begun


def test_a_run_is_begun_once_and_resumed_with_the_recipe_that_it_has(tmp_path: Path) -> None:
    run = tmp_path / "runs/one"
    require_begun(run / RECIPE, False)
    with pytest.raises(DataError, match="one has no run to resume"):
        require_begun(run / RECIPE, True)
    with begun(run, "steps = 3\n", resume=False):
        pass
    require_begun(run / RECIPE, True)
    with pytest.raises(DataError, match="one has a run already: add --resume or name another"):
        require_begun(run / RECIPE, False)
    with begun(run, "steps = 3\n", resume=True):
        pass
    refused = pytest.raises(DataError, match=r"begun with another recipe; resume with .*recipe\.toml, or name another")
    with refused, begun(run, "steps = 4\n", resume=True):
        pass
    assert (run / RECIPE).read_text() == "steps = 3\n"


def test_only_one_process_trains_in_a_folder(tmp_path: Path) -> None:
    first, second = (begun(tmp_path, "steps = 3\n", resume=resume) for resume in (False, True))
    with first, pytest.raises(DataError, match=f"another process is training in {tmp_path}: wait for it"), second:
        pass
    with begun(tmp_path, "steps = 3\n", resume=True):
        pass


def test_a_bar_shows_the_steps_before_those_that_are_left(capsys: pytest.CaptureFixture[str]) -> None:
    bar = counted(Console(), range(2, 4))
    assert isinstance(bar, ProgressBar)
    assert (bar.n, bar.total) == (2, 4)
    assert list(bar) == [2, 3]
    assert bar.n == 4
    assert capsys.readouterr().out == ""
