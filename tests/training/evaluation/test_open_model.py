"""What `--model` may name."""

import sys
from pathlib import Path

import numpy as np
import pytest

from diptych_model.checkpoint import save_checkpoint
from diptych_runtime.errors import ArtifactError
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.open_model import is_checkpoint, open_model


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, tiny_network) -> Path:
    directory = tmp_path_factory.mktemp("run") / "best"
    metadata = {"calibration": {"scale": 2.0, "offset": 0.5}, "thresholds": {"0.01": 0.7}}
    save_checkpoint(tiny_network, directory, metadata)
    return directory


@pytest.mark.usefixtures("written_graphs")
def test_a_checkpoint_is_exported_and_scores_as_its_artifact_does(checkpoint: Path, runtime: Runtime) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    with open_model(str(checkpoint)) as opened:
        assert np.array_equal(opened.encode(pixels).embeddings, runtime.encode(pixels).embeddings)
        assert opened.thresholds == {"0.01": 0.7}
        assert opened.name == "best"
        assert opened.manifest.parity
    assert {path.name for path in checkpoint.iterdir()} == {"config.json", "weights.safetensors"}


def test_an_artifact_and_a_released_model_are_opened_as_they_are(artifact: Path) -> None:
    with open_model(str(artifact)) as tiny, open_model("photo-small") as photo:
        assert (tiny.name, photo.name) == ("tiny", "photo-small")
    assert not is_checkpoint(artifact)


@pytest.mark.slow
def test_a_model_s_panel_part_is_measured_alone_by_late_interaction_and_by_its_embedding(checkpoint: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    with open_model(f"late:{checkpoint}") as late, open_model(f"twin:{checkpoint}") as twin:
        tokens, embeddings = late.encode(pixels)
        a, b = (t.astype(np.float64).reshape(len(t), -1, t.shape[-1]) for t in (tokens[:1], tokens[1:]))
        a, b = (t / np.linalg.norm(t, axis=-1, keepdims=True) for t in (a, b))
        cosines = a @ b.transpose(0, 2, 1)
        best = (cosines.max(1).mean(1) + cosines.max(2).mean(1)) / 2
        np.testing.assert_allclose(late.pair_logits(tokens[:1], tokens[1:]), 10 * best - 5, atol=1e-2)
        seen = twin.encode(pixels)
        np.testing.assert_allclose(seen.embeddings, embeddings, atol=1e-6)
        expected = 10 * embeddings[:1] @ embeddings[1:].T - 5
        np.testing.assert_allclose(twin.pair_logits(seen.tokens[:1], seen.tokens[1:]), expected[0], atol=1e-2)
        assert late.name == f"late:{checkpoint.name}"


def test_without_torch_a_checkpoint_is_refused_with_the_line_that_installs_it(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "diptych_export.artifact", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith(("diptych_export.graphs", "diptych_export.parity"))]:
        monkeypatch.delitem(sys.modules, name)
    with (
        pytest.raises(DataError, match=r"is a checkpoint.*needs torch.*pip install 'diptych\[train,cpu\]'"),
        open_model(str(checkpoint)),
    ):
        pass


def test_what_is_neither_is_refused_with_the_names_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="neither a bundled model"), open_model(str(tmp_path / "nowhere")):
        pass
