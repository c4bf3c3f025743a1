import json
import sys

import pytest

from diptych.cli.main import main
from diptych_export import artifact
from diptych_export.parity import compare_graphs
from diptych_model import save_checkpoint
from diptych_runtime.manifest import Manifest


def run(*words: str) -> int:
    return main(["export", *words])


def test_diptych_export_writes_an_artifact_and_prints_the_parity(
    tiny_network, written_graphs, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(
        artifact,
        "compare_graphs",
        lambda network, graphs, pairs, on_pairs: compare_graphs(network, graphs, pairs=pairs // 500, on_pairs=on_pairs),
    )
    save_checkpoint(tiny_network, tmp_path / "checkpoint", {"metrics": {"seen": 3}})
    out = tmp_path / "model"
    assert run(str(tmp_path / "checkpoint"), "-o", str(out), "--name", "mine") == 0
    printed = capsys.readouterr()
    assert "reference evaluator" in printed.out
    assert f"model mine, revision {Manifest.load(out).revision}" in printed.out
    assert "from the pixels of both" not in printed.out
    assert run(str(tmp_path / "checkpoint"), "-o", str(out), "--name", "mine", "--json", "--no-check") == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert document["manifest"]["metrics"] == {"seen": 3}
    assert document["manifest"]["parity"] == {}
    assert set(document["bytes"]) == {"panel.onnx", "pair.onnx", "explain.onnx"}
    assert printed.err == ""


def test_a_wrong_path_and_a_missing_torch_are_said_before_anything_is_exported(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "diptych_export.artifact", None)  # importing it fails, as without torch
    (tmp_path / "photos").mkdir()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").touch()
    for name, said in (
        ("nowhere", "nowhere does not exist; expected a directory that `diptych train` wrote, or a released model"),
        ("photos", "photos has no config.json"),
        ("checkpoint", "install it with `pip install 'diptych[train,cpu]'`"),
    ):
        assert run(str(tmp_path / name), "-o", str(tmp_path / "model")) == 1
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [(["photo-small"], "Missing option '-o'"), ([".", "-o", "out", "--opset", "18"], "--opset is for a pair network")],
)
def test_options_that_are_missing_or_do_not_go_together_are_a_usage_error(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "losses.safetensors").touch()
    with pytest.raises(SystemExit) as stop:
        run(*words)
    assert stop.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
