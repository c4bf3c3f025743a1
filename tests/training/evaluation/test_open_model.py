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
