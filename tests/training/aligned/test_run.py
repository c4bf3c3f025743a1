"""The run of an aligned-pair network: from a recipe to the graph that a closer look takes, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from diptych.cli.main import main
from diptych_model.networks.aligned import WEIGHTS, load_aligned
from diptych_runtime.closer_look.aligned import GRAPH, graph
from diptych_runtime.manifest import digest
from diptych_runtime.session import open_session, run_session
from diptych_training.aligned.recipe import RELEASED, AlignedRecipe, Budget, Origins
from diptych_training.aligned.run import METRICS, train_aligned_pairs
from diptych_training.errors import DataError

RECIPE = """
name = "few"
threads = 1
[aligned]
families = 8
[learning]
steps = 2
batch = 2
small = 32
"""


def answered(checkpoint: Path, pair: np.ndarray) -> np.ndarray:
    """What the network of a checkpoint says of a pair, float32 (1,)."""
    with torch.no_grad():
        return load_aligned(checkpoint)(torch.from_numpy(pair)).numpy()


def test_a_run_leaves_a_graph_of_any_size_with_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.toml").write_text(RECIPE)
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "few.toml"), "-o", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    checkpoint = Path(found.pop("checkpoint"))
    assert checkpoint == run / "best"
    assert json.loads((run / METRICS).read_text()) == found
    assert found["digest"] == digest((checkpoint / WEIGHTS).read_bytes())
    assert 0 < found["copies"] < found["pairs"]

    assert main(["export", str(checkpoint), "-o", str(tmp_path / "aligned"), "--json"]) == 0
    graph = Path(json.loads(capsys.readouterr().out)["graph"])
    assert graph == tmp_path / "aligned" / GRAPH
    session = open_session(graph.read_bytes())
    for rows, columns in ((8, 16), (24, 72)):
        pair = np.random.default_rng(1).random((1, 7, rows, columns), np.float32)
        (odds,) = run_session(session, {"pair": pair})
        np.testing.assert_allclose(odds, answered(checkpoint, pair), atol=1e-4)
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(checkpoint), "-o", str(tmp_path / "other"), "--precision", "int8"])
    assert "--precision is for a pair network" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "few.toml"), "-o", str(run)]) == 1
    assert "has a run already: add --resume or name another" in capsys.readouterr().err


def test_a_run_may_begin_with_the_released_network_or_with_another_run(tmp_path: Path) -> None:
    aligned, still = Origins(families=1), Budget(steps=1, batch=2, small=32, rate=1e-9, decay=0.0)
    train_aligned_pairs(AlignedRecipe(aligned, still, start=RELEASED), tmp_path / "first", quiet=True)
    begun = str(tmp_path / "first" / "best")
    train_aligned_pairs(AlignedRecipe(aligned, still, start=begun), tmp_path / "second", quiet=True)
    pair = np.random.default_rng(1).random((1, 7, 24, 32), np.float32)
    (expected,) = run_session(open_session(graph()), {"pair": pair})
    for run in ("first", "second"):
        np.testing.assert_allclose(answered(tmp_path / run / "best", pair), expected, atol=1e-4)


def test_a_run_is_resumed_with_its_own_recipe_only(tmp_path: Path) -> None:
    recipe = AlignedRecipe(Origins(families=1), Budget(steps=1))
    with pytest.raises(DataError, match="has no run to resume"):
        train_aligned_pairs(recipe, tmp_path, resume=True)
    (tmp_path / "recipe.toml").write_text("name = 'another'\n")
    with pytest.raises(DataError, match="was begun with another recipe"):
        train_aligned_pairs(recipe, tmp_path, resume=True)


def test_archives_are_looked_for_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIPTYCH_DATA", raising=False)
    with pytest.raises(DataError, match="DIPTYCH_DATA"):
        train_aligned_pairs(AlignedRecipe(Origins(archives=("goods",))), tmp_path / "run")
    assert not (tmp_path / "run").exists()
