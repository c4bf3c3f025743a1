"""The recipe of a classifier: read, resolved, and what is refused."""

from pathlib import Path

import pytest

from diptych_model import Msac
from diptych_training.classifiers.recipe import classifier_recipe_from
from diptych_training.recipe import built

RECIPE = Path(__file__).parents[3] / "training/recipes/classifier.toml"


def test_the_recipe_of_the_repository_is_read_and_written_alike() -> None:
    recipe = built(RECIPE, [], classifier_recipe_from)
    assert classifier_recipe_from(recipe.to_dict()) == recipe


def test_one_mixer_stands_in_every_stage() -> None:
    recipe = classifier_recipe_from({"classifier": {"pictures": "p"}, "network": {"spatial": {"kind": "msac"}}})
    assert recipe.network.spatial == (Msac(),)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"classifier": {}}, r"\[classifier\] needs pictures"),
        ({"classifier": {"pictures": "p"}, "threads": 0}, "by 1 thread at least, got 0"),
        ({"classifier": {"pictures": "p"}, "learning": {"rte": 1}}, "did you mean 'rate'"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classifier_recipe_from(values)
