import shutil
from dataclasses import asdict

import onnx
import pytest
import torch

from diptych_export import artifact as module
from diptych_export.artifact import export_artifact, export_checkpoint
from diptych_export.folding import freeze_network
from diptych_export.graphs import Graphs
from diptych_model import load_checkpoint, save_checkpoint
from diptych_model.checkpoint import read_description
from diptych_model.embedding import weights_of_parts
from diptych_runtime.calibration.questions import upgrade_to_questions
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import CARD, Manifest, Question, digest
from diptych_runtime.models import CHECKPOINT, MODELS, bundled_models, find_checkpoint
from diptych_runtime.runtime import Runtime

FEW = 16  # pairs that are ranked: what the gate lets through is `test_parity`'s matter


def test_an_artifact_carries_graphs_digests_sizes_calibration_and_parity(artifact):
    manifest = Manifest.load(artifact)
    files = {"panel.onnx", "pair.onnx", "explain.onnx", "manifest.json", CARD}
    assert {path.name for path in artifact.iterdir()} == files
    assert all(digest((artifact / file).read_bytes()) == value for file, value in manifest.digests.items())
    assert (manifest.name, manifest.opset, manifest.format) == ("tiny", 23, 2)
    thresholds = {"0.01": 0.9, "0.001": 0.97, "0.0001": 0.99}
    question = asdict(Question(1.5, -0.25, thresholds))
    assert asdict(manifest.questions["match"]) == question
    assert manifest.metrics == {"note": "random weights"}
    assert manifest.parity["largest"] <= manifest.parity["tolerance"] == 1e-5
    assert {difference["pairs"] for difference in manifest.parity["differences"]} == {0, 400}


@pytest.fixture
def panel_and_pair(written_graphs, monkeypatch) -> Graphs:
    """`written_graphs` without the explain graph, which takes half of what it takes to compare all."""
    fewer = written_graphs._replace(explain=None)
    monkeypatch.setattr(module, "export_graphs", lambda network, opset: fewer)
    return fewer


def test_a_refused_export_leaves_the_artifact_that_was_there(artifact, tiny_network, panel_and_pair, tmp_path):
    other = shutil.copytree(artifact, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in other.iterdir()}
    with torch.no_grad():
        changed = freeze_network(tiny_network)
        changed.get_parameter("pair.head.2.bias").add_(1)
    with pytest.raises(ArtifactError, match="nothing was written"):
        export_artifact(changed, other, pairs=FEW)
    assert {path.name: path.read_bytes() for path in other.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_artifact_is_replaced_as_a_whole_and_keeps_its_card(tiny_network, written_graphs, tmp_path):
    target = tmp_path / "model"
    export_artifact(tiny_network, target, check=False, metadata={"card": "# Card\n"})
    export_artifact(tiny_network, target, name="second", check=False)
    files = {"panel.onnx", "pair.onnx", "explain.onnx", "manifest.json", CARD}
    assert {path.name for path in target.iterdir()} == files
    assert (target / CARD).read_text() == "# Card\n"
    assert Runtime.open(target, provider="cpu", threads=1).name == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_directory_that_holds_something_else_is_refused(tiny_network, tmp_path):
    (tmp_path / "letters.txt").write_text("dear ...")
    with pytest.raises(ArtifactError, match="is not empty and holds no artifact"):
        export_artifact(tiny_network, tmp_path)
    with pytest.raises(ArtifactError, match="is a file; an artifact is a directory"):
        export_artifact(tiny_network, tmp_path / "letters.txt")
    with pytest.raises(ArtifactError, match=r"cannot be made, as .*letters\.txt is a file; choose another directory"):
        export_artifact(tiny_network, tmp_path / "letters.txt" / "deep" / "artifact")
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_an_artifact_with_its_weights_is_exported_again_with_what_was_measured_of_it(
    tiny_network, written_graphs, tmp_path
):
    measured = {"calibration": {"scale": 2.0, "offset": -0.5}, "thresholds": {"0.01": 0.8}, "metrics": {"seen": 3}}
    save_checkpoint(tiny_network, tmp_path / "checkpoint", measured | {"card": "# What it is\n"})
    export_checkpoint(tmp_path / "checkpoint", tmp_path / "out", check=False, weights=True)
    assert (tmp_path / "out" / CARD).read_text() == "# What it is\n"
    again = export_checkpoint(tmp_path / "out", tmp_path / "again", check=False)
    assert again.questions == {"match": Question(2.0, -0.5, {"0.01": 0.8})}
    assert again.metrics == measured["metrics"]
    network, kept = load_checkpoint(tmp_path / "out" / CHECKPOINT)
    for name, value in tiny_network.state_dict().items():
        torch.testing.assert_close(network.state_dict()[name], value, rtol=1e-3, atol=1e-4)
    assert Question(**kept["questions"]["match"]) == again.questions["match"]
    assert kept["metrics"] == {"seen": 3}


def test_what_was_measured_of_several_questions_is_kept_in_the_order_of_the_columns(
    tiny_network_of_two, artifact_of_two, tmp_path, monkeypatch
):
    two = Graphs(*(onnx.load(artifact_of_two / f"{part}.onnx") for part in Graphs._fields))
    monkeypatch.setattr(module, "export_graphs", lambda network, opset: two)
    measured = {"questions": {"thing": {"scale": 3.0, "offset": 0.0, "thresholds": {"0.01": 0.5}}}}
    save_checkpoint(tiny_network_of_two, tmp_path / "checkpoint", measured)
    manifest = export_checkpoint(tmp_path / "checkpoint", tmp_path / "out", check=False)
    copy, thing = (tuple(weights_of_parts(("copy", "thing"), question)) for question in ("copy", "thing"))
    assert list(manifest.questions.items()) == [
        ("copy", Question(weights=copy)),
        ("thing", Question(3.0, 0.0, {"0.01": 0.5}, thing)),
    ]
    save_checkpoint(tiny_network_of_two, tmp_path / "checkpoint", {"thresholds": {"0.01": 0.5}})
    with pytest.raises(ArtifactError, match="the network answers copy, thing, and there is a calibration of match"):
        export_checkpoint(tmp_path / "checkpoint", tmp_path / "out", check=False)


@pytest.mark.parametrize("model", bundled_models())
def test_a_released_model_s_weights_carry_what_its_manifest_says_was_measured(model):
    manifest, kept = Manifest.load(MODELS / model), read_description(find_checkpoint(model))["metadata"]
    assert {
        name: Question(**values) for name, values in upgrade_to_questions(kept)["questions"].items()
    } == manifest.questions
    assert kept["metrics"] == manifest.metrics


def test_an_artifact_is_not_replaced_where_files_or_weights_would_be_lost(tiny_network, written_graphs, tmp_path):
    save_checkpoint(tiny_network, tmp_path / "checkpoint")
    target = tmp_path / "model"
    export_checkpoint(tmp_path / "checkpoint", target, check=False, weights=True)
    for words, said in (
        ({"checkpoint": tmp_path / "checkpoint"}, "has weights to train on from, which would be lost"),
        ({"checkpoint": target, "weights": True}, "lies in .*model, which the artifact would replace"),
    ):
        with pytest.raises(ArtifactError, match=said):
            export_checkpoint(directory=target, check=False, **words)
    (target / "notes.txt").write_text("mine")
    with pytest.raises(ArtifactError, match=r"holds notes\.txt, which is no part of an artifact and would be lost"):
        export_checkpoint(tmp_path / "checkpoint", target, check=False, weights=True)
    assert (target / "notes.txt").read_text() == "mine"
    load_checkpoint(target / CHECKPOINT)
    (target / "notes.txt").unlink()
    export_checkpoint(tmp_path / "checkpoint", target, check=False, weights=True)
