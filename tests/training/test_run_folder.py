"""The folder of a run: begun once, and resumed as it was begun."""

from pathlib import Path

import pytest

from diptych_training.errors import DataError
from diptych_training.run_folder import RECIPE, begin, counted, require_begun


def test_a_run_is_begun_once_and_resumed_with_the_recipe_that_it_has(tmp_path: Path) -> None:
    run = tmp_path / "runs/one"
    require_begun(run / RECIPE, False)
    with pytest.raises(DataError, match="one has no run to resume"):
        require_begun(run / RECIPE, True)
    begin(run, "steps = 3\n", resume=False)
    require_begun(run / RECIPE, True)
    with pytest.raises(DataError, match="one has a run already: add --resume or name another"):
        require_begun(run / RECIPE, False)
    begin(run, "steps = 3\n", resume=True)
    with pytest.raises(DataError, match=r"was begun with another recipe; resume with .*recipe\.toml, or name another"):
        begin(run, "steps = 4\n", resume=True)
    assert (run / RECIPE).read_text() == "steps = 3\n"


def test_a_bar_shows_the_steps_that_are_over() -> None:
    over = []

    class Bar:
        def update(self, n: int) -> None:
            over.append(n)

    for step in counted(Bar(), range(2, 4)):
        assert len(over) == step - 2
    assert over == [1, 1]
