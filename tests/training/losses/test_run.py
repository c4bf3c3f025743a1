"""The run of a network of losses: its recipe, a run that is stopped and resumed, and the graph that it becomes."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diptych.cli.main import main
from diptych_model.networks.losses import OUTPUTS, WEIGHTS, load_losses
from diptych_runtime.closer_look.comparison import GRAPH, LOSSES, SIDE
from diptych_runtime.manifest import digest
from diptych_runtime.session import open_session, run_session
from diptych_training.losses import run
from diptych_training.losses.recipe import losses_recipe_from
from diptych_training.state import save_state

RECIPES = Path(__file__).parents[3] / "training/recipes"
FEW: dict[str, Any] = {
    "threads": 1,
    "losses": {"archives": ["documents"], "held_out": ["grocery"], "photos": 8},
    "learning": {"steps": 5, "batch": 4, "shelf": 2, "uses": 1, "warmup": 2, "examined": 16},
}


@pytest.fixture
def data(archives: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small archives, and few examples drawn at a time."""
    monkeypatch.setenv("DIPTYCH_DATA", str(archives))
    monkeypatch.setattr(run, "CHUNK", 8)


def test_the_recipe_of_the_release_is_read_and_written_out() -> None:
    recipe = losses_recipe_from(tomllib.loads((RECIPES / "losses.toml").read_text()))
    assert losses_recipe_from(recipe.to_dict()) == recipe
    assert not set(recipe.losses.archives) & set(recipe.losses.held_out)


def test_a_recipe_may_begin_with_another_run_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the folder of a checkpoint"):
        losses_recipe_from(FEW | {"start": str(tmp_path)})
    (tmp_path / WEIGHTS).touch()
    assert losses_recipe_from(FEW | {"start": str(tmp_path)}).start == str(tmp_path)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        ("losses", {"archives": []}, "needs archives, others held_out"),
        ("losses", {"held_out": ["documents"]}, "others held_out, and photos of 1 or more"),
        ("losses", {"without": ["writings"]}, "without is of writing, covers, .* got writings"),
        ("losses", {"archive": ["flowers"]}, "did you mean 'archives'"),
        ("learning", {"uses": 0}, "uses, shelf, examined and rate must be positive"),
        ("learning", {"average": 1}, "average from 0 to below 1"),
    ],
)
def test_a_recipe_that_cannot_be_learnt_from_is_refused(table: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        losses_recipe_from(FEW | {table: FEW[table] | changes})


@pytest.mark.usefixtures("data")
def test_a_run_that_was_stopped_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SAVE_EVERY", 1)
    recipe = losses_recipe_from(FEW)
    whole = run.train_losses(recipe, tmp_path / "whole", quiet=True)

    def stop(path: Path, *what: Any, **others: Any) -> None:
        save_state(path, *what, **others)
        if len(others["losses"]) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "save_state", stop)
    with pytest.raises(KeyboardInterrupt):
        run.train_losses(recipe, tmp_path / "stopped", quiet=True)
    monkeypatch.setattr(run, "save_state", save_state)
    resumed = run.train_losses(recipe, tmp_path / "stopped", resume=True, quiet=True)
    assert (resumed["digest"], resumed["curve"]) == (whole["digest"], whole["curve"])
    assert set(whole["held_out"]) <= set(LOSSES)
    assert {"lost", "kept", "auc"} == set(whole["held_out"]["anything"])


@pytest.mark.usefixtures("data")
def test_a_run_becomes_a_graph_that_answers_as_torch_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "few.toml"
    recipe.write_text(
        'threads = 1\n[losses]\narchives = ["documents"]\nheld_out = ["flowers"]\nphotos = 8\n'
        "[learning]\nsteps = 1\nbatch = 2\nshelf = 1\nexamined = 8\n"
    )
    assert main(["train", str(recipe), "-o", str(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    checkpoint = Path(found["checkpoint"])
    assert found["digest"] == digest((checkpoint / WEIGHTS).read_bytes())
    assert main(["export", str(checkpoint), "-o", str(tmp_path / "losses"), "--json"]) == 0
    graph = Path(json.loads(capsys.readouterr().out)["graph"])
    assert graph == tmp_path / "losses" / GRAPH
    views = np.random.default_rng(1).integers(256, size=(3, 2, 2, SIDE, SIDE, 8), dtype=np.uint8)
    (odds,) = run_session(open_session(graph.read_bytes()), {"views": views})
    with torch.no_grad():
        np.testing.assert_allclose(odds, load_losses(checkpoint)(torch.from_numpy(views)).numpy(), atol=1e-4)
    assert odds.shape == (3, 2, OUTPUTS) == (3, 2, len(LOSSES))
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(checkpoint), "-o", str(tmp_path / "other"), "--precision", "int8"])
    assert "--precision is for a pair network, and" in capsys.readouterr().err
