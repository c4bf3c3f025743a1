"""The network of losses: its recipe, a run that is stopped and resumed, and the graph that it becomes."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch

from diptych.cli.main import main
from diptych_model.networks.losses import OUTPUTS, WEIGHTS, load_losses
from diptych_runtime.closer_look.comparison import GRAPH, LOSSES, SIDE
from diptych_runtime.manifest import digest
from diptych_runtime.session import open_session, run_session
from diptych_training.errors import DataError
from diptych_training.losses import training
from diptych_training.losses.training import LossesRun, recipe_from, train

FEW: dict[str, Any] = {
    "threads": 1,
    "losses": {"archives": ["documents"], "held_out": ["grocery"], "photos": 8},
    "learning": {"steps": 4, "batch": 2, "shelf": 1, "uses": 1, "warmup": 2, "examined": 8},
}


@pytest.fixture(scope="module", autouse=True)
def data(archives: Path) -> Iterator[None]:
    """Small archives, and few examples drawn at a time: a chunk for every two steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIPTYCH_DATA", str(archives))
        patch.setattr(training, "CHUNK", 4)
        yield


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run of the command line says, whose examples another process draws."""
    folder, said = tmp_path_factory.mktemp("losses"), StringIO()
    (folder / "few.toml").write_text(tomli_w.dumps(FEW))
    with redirect_stdout(said):
        assert main(["train", str(folder / "few.toml"), "-o", str(folder / "run"), "--json"]) == 0
    return json.loads(said.getvalue())


def test_a_recipe_may_begin_with_another_run_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the folder of a checkpoint"):
        recipe_from(FEW | {"start": str(tmp_path)})
    (tmp_path / WEIGHTS).touch()
    assert recipe_from(FEW | {"start": str(tmp_path)}).start == str(tmp_path)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        ("losses", {"archives": []}, "needs archives, others held_out"),
        ("losses", {"held_out": ["documents"]}, "others held_out, and photos of 1 or more"),
        ("losses", {"without": ["writings"]}, "without is of writing, covers, .* got writings"),
        ("losses", {"archive": ["flowers"]}, "did you mean 'archives'"),
        ("learning", {"uses": 0}, "uses, shelf and examined must be positive"),
        ("learning", {"average": 1}, "average from 0 to below 1"),
    ],
)
def test_a_recipe_that_cannot_be_learnt_from_is_refused(table: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        recipe_from(FEW | {table: FEW[table] | changes})


def test_a_run_that_was_stopped_goes_on_to_the_same_weights_whoever_draws(
    learnt: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "worker_pool", ThreadPoolExecutor)
    monkeypatch.setattr(LossesRun, "save_every", 1)
    save, recipe = LossesRun.save, recipe_from(FEW)

    def stop(self: LossesRun) -> None:
        save(self)
        if self.optimisation.step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(LossesRun, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path, quiet=True)
    monkeypatch.setattr(LossesRun, "save", save)
    resumed = train(recipe, tmp_path, resume=True, quiet=True)
    assert (resumed["digest"], resumed["curve"]) == (learnt["digest"], learnt["curve"])
    assert set(learnt["held_out"]) <= set(LOSSES)
    assert {"lost", "kept", "auc"} == set(learnt["held_out"]["anything"])


def test_a_run_becomes_a_graph_that_answers_as_torch_does(
    learnt: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = Path(learnt["checkpoint"])
    assert learnt["digest"] == digest((checkpoint / WEIGHTS).read_bytes())
    assert main(["export", str(checkpoint), "-o", str(tmp_path), "--json"]) == 0
    graph = Path(json.loads(capsys.readouterr().out)["graph"])
    assert graph == tmp_path / GRAPH
    views = np.random.default_rng(1).integers(256, size=(3, 2, 2, SIDE, SIDE, 8), dtype=np.uint8)
    (odds,) = run_session(open_session(graph.read_bytes()), {"views": views})
    with torch.no_grad():
        np.testing.assert_allclose(odds, load_losses(checkpoint)(torch.from_numpy(views)).numpy(), atol=1e-4)
    assert odds.shape == (3, 2, OUTPUTS) == (3, 2, len(LOSSES))
