"""The literal form from a recipe to a score: a run on a few drawn pictures, its artifact, and the scores it gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small import SCALES, SMALL

from diptych.scoring.scorer import Scorer
from diptych_export.artifact import export_checkpoint
from diptych_model import PairNetwork, load_checkpoint
from diptych_training.learning import run
from diptych_training.recipe import recipe_from

LITERAL: dict[str, Any] = {
    "name": "literal",
    "network": SMALL["network"]
    | {
        "seam": "pixels",
        "segment": "concatenated",
        "bias": "concatenated",
        "mixer": {"kind": "msac", "scales": SCALES[-2:]},
    },
    "learning": {"warmup": 2, "bfloat16": False, "average": 0.5},
    "stages": [
        {"pixels": 16, "steps": 1, "relate": False},
        {"pixels": 16, "steps": 1, "negatives": 2, "easy": 1},
        {"pixels": 32, "steps": 2, "negatives": 2, "easy": 1},
    ],
    "mine_every": 2,
    "validate_every": 4,
    "checkpoint_every": 2,
    "threads": 1,
}


def recipe(pictures: Path) -> dict[str, Any]:
    return LITERAL | {"tasks": [{"kind": "classes", "pictures": str(pictures)}]}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    """Three classes of five drawn pictures."""
    folder = tmp_path_factory.mktemp("pictures")
    for kind in range(3):
        (folder / f"class-{kind}").mkdir()
        for number in range(5):
            (folder / f"class-{kind}" / f"{number}.jpg").write_bytes(photo_bytes(10 * kind + number // 4, (64, 48)))
    return folder


@pytest.fixture(scope="module")
def trained(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("literal") / "run"
    run.train(recipe_from(recipe(pictures)), directory, quiet=True)
    return directory


def test_training_teaches_the_segments_through_the_pairs(trained: Path, pictures: Path) -> None:
    network, metadata = load_checkpoint(trained / "last")
    begun = recipe_from(recipe(pictures))
    torch.manual_seed(begun.seed)
    before, after = PairNetwork(begun.network).panel.segments, network.panel.segments
    assert after.x_seg.shape == (32, 32, after.CONCATENATED)
    for name in ("x_seg", "z_seg"):
        assert (getattr(after, name) - getattr(before, name)).abs().max() > 1e-4
    assert metadata["step"] == begun.steps


@pytest.mark.slow
def test_what_was_trained_is_exported_and_scores_files_in_both_orders_alike(
    trained: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The explain graph, which takes as long as both others, is the matter of the artifact that is exported once.
    monkeypatch.setattr(PairNetwork, "has_attention", False)
    export_checkpoint(trained / "best", tmp_path / "artifact", check=False)
    scorer = Scorer.load(str(tmp_path / "artifact"), provider="cpu", threads=1)
    a, b = pictures / "class-0" / "0.jpg", pictures / "class-1" / "0.jpg"
    one, other = scorer.predict([(a, b), (b, a)])
    assert one == other
    assert 0 <= one <= 1
    network, _ = load_checkpoint(trained / "best")
    x, z = (torch.from_numpy(scorer.pixels(path)).permute(2, 0, 1)[None] / 255 for path in (a, b))
    with torch.no_grad():
        wanted = network(x, z).numpy()
    np.testing.assert_allclose(scorer.predict([(a, b)], activation_fn=np.asarray), wanted, atol=1e-5)
