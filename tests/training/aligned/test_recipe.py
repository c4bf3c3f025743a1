"""The recipe of an aligned-pair network, and what it refuses."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from diptych_training.aligned.recipe import AlignedRecipe, Budget, Origins, aligned_recipe_from

RECIPES = Path(__file__).parents[3] / "training/recipes"


def test_the_recipe_of_the_release_is_read_and_written_out() -> None:
    recipe = aligned_recipe_from(tomllib.loads((RECIPES / "aligned.toml").read_text()))
    assert isinstance(recipe, AlignedRecipe)
    assert "goods" in recipe.aligned.archives
    assert aligned_recipe_from(recipe.to_dict()) == recipe


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"families": -1, "archives": ["goods"]}, "families of 0 or more"),
        ({"families": 0}, "families or archives, got families = 0"),
        ({"things": 10}, "archives whose photos are printed on them, got things = 10"),
        ({"photos": 1}, "photos of 2 or more"),
        ({"family": 1}, "did you mean 'families'"),
    ],
)
def test_origins_without_pairs_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        aligned_recipe_from({"aligned": values})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps, batch, warmup and rate must be positive"),
        ({"small": 8}, "small 32 or more"),
        ({"average": 1.0}, "average must be from 0 to below 1"),
    ],
)
def test_budgets_that_do_not_train_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Budget(**changes)


def test_a_run_has_a_thread() -> None:
    with pytest.raises(ValueError, match="1 thread at least, got 0"):
        AlignedRecipe(Origins(), threads=0)


def test_a_run_begins_with_a_network_that_there_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither 'aligned', the released network, nor the folder of a checkpoint"):
        AlignedRecipe(Origins(), start=str(tmp_path))
