import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from diptych_model import Residual, save_checkpoint
from diptych_training.cli import OF_STUDIES
from diptych_training.errors import DataError
from diptych_training.recipe import PAIR_TRAINING, TRAININGS, build_recipe, open_training, recipe_from

RECIPES = Path(__file__).parents[2] / "training" / "recipes"


def test_every_recipe_of_the_repository_is_read_written_out_and_read_again() -> None:
    trained = set()
    for path in sorted(RECIPES.glob("*.toml")):
        if path.stem == "classifier":
            continue
        training, recipe = open_training(path, [], OF_STUDIES)
        assert training.recipe_from(recipe.to_dict()) == recipe
        trained.add(training.__name__)
    assert trained == {*TRAININGS.values(), *OF_STUDIES.values(), PAIR_TRAINING}


@pytest.mark.parametrize(("table", "command"), [("classifier", "diptych study classifier"), ("labels", "calibrate")])
def test_a_recipe_of_what_train_does_not_train_is_refused_with_the_command(table, command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(f"[{table}]")
    with pytest.raises(DataError, match=f"`.*{command}`"):
        open_training(tmp_path / "run.toml", [], {})


def test_a_resolved_recipe_reads_back_as_itself() -> None:
    recipe = build_recipe(RECIPES / "photo.toml", [], recipe_from)
    assert recipe_from(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_stages_end_where_the_next_begins() -> None:
    stages = [{"pixels": 64, "steps": 3}, {"pixels": 128, "steps": 5}]
    recipe = recipe_from({"stages": stages, "tasks": [{"kind": "copy"}]})
    assert [(stage.pixels, end) for stage, end in recipe.stage_ends()] == [(64, 3), (128, 8)]
    assert recipe.steps == 8


def test_a_run_that_starts_from_a_checkpoint_takes_its_network_or_another_trunk(tiny_network, tmp_path: Path) -> None:
    save_checkpoint(tiny_network, tmp_path / "begun")
    pixels = tiny_network.config.pixels
    values = {"start": str(tmp_path / "begun"), "stages": [{"pixels": pixels, "steps": 1}], "tasks": [{"kind": "copy"}]}
    recipe = recipe_from(values)
    assert recipe.network == tiny_network.config
    assert recipe_from(json.loads(json.dumps(recipe.to_dict()))) == recipe
    other = recipe_from(values | {"network": {"relation": "siamese", "embedding": 5}}).network
    assert other == replace(tiny_network.config, relation="siamese", embedding=5)


def test_a_recipe_is_changed_from_outside_in_any_place(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[learning]\nrate = 1e-3\n" + TASK + "[[stages]]\npixels = 64\nsteps = 3\n" * 2)
    changes = ["name=mine", "learning.warmup = 7", "network.relation=siamese", "network.encoder.depths=[1, 1, 2]"]
    changes += ["network.pixels=64", "stages.1.steps=60", "stages.1.negatives=4"]
    recipe = build_recipe(path, changes, recipe_from)
    assert (recipe.name, recipe.learning.rate, recipe.learning.warmup) == ("mine", 1e-3, 7)
    assert (recipe.network.relation, recipe.network.encoder) == ("siamese", Residual(depths=(1, 1, 2)))
    assert [(stage.pixels, stage.steps, stage.negatives) for stage in recipe.stages] == [(64, 3, 7), (64, 60, 4)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("rate", "a change is KEY=VALUE, such as learning.rate=1e-3; got 'rate'"),
        ("stages.2.steps=1", "'stages.2.steps=1': there is no '2' in a list of 1, which counts from 0"),
        ("learning.rat=1", "did you mean 'rate'"),
        ("learning=fast", "learning is a table of settings, got 'fast'"),
        ("learning.rate=fast", "rate of learning is a finite number, got 'fast'"),
        ("learning.rate=nan", "rate of learning is a finite number, got nan"),
        ("network.mixer=msac", "the mixer is a table of settings, with its kind: msac"),
        ("stages.0.steps=2.5", "steps of a stage is a whole number, got 2.5"),
        ("threads=true", "threads of a recipe is a whole number, got True"),
        ("learning.bfloat16=1", "bfloat16 of learning is true or false, got 1"),
        ("name=3", "name of a recipe is a text, got 3"),
        *(
            (f"name='{name}'", f"the name must be one line without a slash or a dot at its beginning, got '{name}'")
            for name in ("/tmp/x", "../x", "a/b", ".x", "")
        ),
    ],
)
def test_a_change_that_does_not_fit_is_refused(tmp_path: Path, change: str, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(TASK + "[[stages]]\npixels = 128\nsteps = 3\n")
    with pytest.raises(DataError, match=re.escape(message)):
        build_recipe(path, [change], recipe_from)


CHARACTERS = '[[tasks]]\nkind = "character"\n'
TASK = "[[tasks]]\nkind = 'copy'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CHARACTERS + "groups = 0\n[[stages]]\npixels = 64\nsteps = 3", "groups of 2 characters or more, got 0 of 20"),
        ("", r"at least one \[\[stages\]\]"),
        ("[[stages]]\npixels = 64\nsteps = 3", r"at least one \[\[tasks\]\] with its kind: copy, catalogue"),
        (TASK + "[[stages]]\npixels = 64\nstep = 3", "a stage has no setting 'step'; did you mean 'steps'"),
        (TASK + "[[stages]]\npixels = 64\nsteps = 0", "above 0"),
        (TASK + "[[stages]]\npixels = 64\nsteps = 3\neasy = 9", "easy <= negatives"),
        (TASK + "[learning]\nrate = 0\n[[stages]]\npixels = 64\nsteps = 3", "rate, temperature and clip above 0"),
        (TASK + "[[stages]]\npixels = 72\nsteps = 3", "or a smaller multiple of 16; got 72"),
        ("start = 'fotos'\n" + TASK + "[[stages]]\npixels = 128\nsteps = 3", "neither a released model"),
        (
            TASK + "[[stages]]\npixels = 64\nsteps = 3",
            "network's panels of 128 pixels, got 64",
        ),
        (TASK + "weight = 0\n[[stages]]\npixels = 128\nsteps = 3", "a task whose weight is above 0"),
        (
            TASK + "[network]\nseam = 'pixels'\n[learning]\nlink = 1.0\n[[stages]]\npixels = 128\nsteps = 3",
            "with seam = 'pixels' or relation",
        ),
        ("mine_every = 0\n" + TASK + "[[stages]]\npixels = 128\nsteps = 3", "mine_every and threads of 1 at least"),
        ("not toml", "Expected"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused_with_its_file_and_the_reason(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        build_recipe(path, [], recipe_from)
    assert str(path) in str(caught.value)


def test_a_missing_recipe_is_named() -> None:
    with pytest.raises(DataError, match=r"no recipe at nowhere\.toml"):
        build_recipe(Path("nowhere.toml"), [], recipe_from)
