"""A run of fine-tuning: from a table to a checkpoint that keeps the panel part, and going on after Ctrl-C."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from diptych.cli.main import main
from diptych_model import load_checkpoint, save_checkpoint
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import Manifest
from diptych_training.errors import DataError
from diptych_training.fine_tuning.adapter import Adapter
from diptych_training.fine_tuning.run import FineTuning, report, train
from diptych_training.fine_tuning.table import Labels
from diptych_training.run import BEST

PICTURES = 20


@pytest.fixture(scope="module")
def start(artifact_of_two, tiny_network_of_two, tmp_path_factory) -> Path:
    """The small artifact of two questions with its weights."""
    folder = shutil.copytree(artifact_of_two, tmp_path_factory.mktemp("start") / "two")
    save_checkpoint(tiny_network_of_two, folder / "checkpoint")
    return folder


@pytest.fixture
def table(tmp_path, photo_bytes) -> Path:
    """Sixty labelled pairs of twenty pictures."""
    for seed in range(PICTURES):
        (tmp_path / f"{seed}.jpg").write_bytes(photo_bytes(seed, (48, 48)))
    rng = np.random.default_rng(0)
    pairs = {tuple(sorted(rng.choice(PICTURES, 2, replace=False).tolist())) for _ in range(100)}
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        rows = [(f"{a}.jpg", f"{b}.jpg", "copy", "same" if (a + b) % 3 else "different") for a, b in sorted(pairs)]
        csv.writer(file).writerows([("image_a", "image_b", "question", "answer"), *rows[:60]])
    return tmp_path / "pairs.csv"


def recipe(start: Path, table: Path, **changes) -> FineTuning:
    return FineTuning(
        labels=Labels(str(table)), start=str(start), threads=1, background=20, strengths=(3.0,), **changes
    )


def test_a_run_leaves_a_checkpoint_with_the_same_panel_part_and_says_what_it_is_worth(start, table, tmp_path):
    found = train(recipe(start, table), tmp_path / "run", quiet=True)
    network, metadata = load_checkpoint(tmp_path / "run" / BEST)
    begun = load_checkpoint(start / "checkpoint")[0]
    assert all(torch.equal(a, b) for a, b in zip(network.panel.parameters(), begun.panel.parameters(), strict=True))
    assert metadata["panel_of"] == str(start)
    assert metadata["questions"]["thing"]["scale"] == Manifest.load(start).questions["thing"].scale, "no labels of it"
    figures = found["questions"]["copy"]
    assert figures["pairs"]["same"] + figures["pairs"]["different"] == 60
    assert list(figures["models"]) == ["released", "calibrated", "fine-tuned"]
    assert figures["models"]["released"]["gain"] == (0.0, 0.0, 0.0)
    assert json.loads((tmp_path / "run/metrics.json").read_text())["questions"].keys() == {"copy"}
    for words in ("copy: ", "each pair held out", "released", "fine-tuned"):
        assert words in report(found, tmp_path / "run")[1]


def test_after_ctrl_c_a_run_goes_on_and_is_not_begun_twice(start, table, tmp_path, monkeypatch, capsys):
    given, compute = recipe(start, table), Adapter.compute_features

    def stopped(self, *tokens):
        raise KeyboardInterrupt

    monkeypatch.setattr(Adapter, "compute_features", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(given, tmp_path / "run")
    assert f"what was seen is kept in {tmp_path / 'run'}, and --resume goes on from there" in capsys.readouterr().err
    monkeypatch.setattr(Adapter, "compute_features", compute)
    train(given, tmp_path / "run", resume=True, quiet=True)
    assert (tmp_path / "run" / BEST).is_dir()
    with pytest.raises(DataError, match="has a run already: add --resume"):
        train(given, tmp_path / "run")
    with pytest.raises(DataError, match="begun with another recipe"):
        train(recipe(start, table, seed=2), tmp_path / "run", resume=True)


def test_too_few_labels_pictures_that_are_gone_and_a_start_without_weights_are_refused(
    start, table, artifact_of_two, tmp_path
):
    few = table.with_name("few.csv")
    few.write_text("\n".join(table.read_text().splitlines()[:10]))
    with pytest.raises(DataError, match=r"at least 20 answers .*: 'copy' has \d same and \d different; 'thing' has 0"):
        train(recipe(start, few), tmp_path / "few", quiet=True)
    with pytest.raises(DataError, match=r"has its weights with it \(`diptych export --weights`\)"):
        train(recipe(artifact_of_two, table), tmp_path / "bare", quiet=True)
    (tmp_path / "3.jpg").unlink()
    with pytest.raises(DataError, match=r"1 of 20 pictures cannot be read(.|\n)*3\.jpg"):
        train(recipe(start, table), tmp_path / "gone", quiet=True)


def test_the_command_reads_a_recipe_with_labels_and_names_the_next_step(start, table, tmp_path, capsys):
    run = tmp_path / "labels.toml"
    run.write_text(f'start = "{start}"\nthreads = 1\nbackground = 20\n[labels]\ntable = "nowhere.csv"\n')
    words = ["train", str(run), "-o", str(tmp_path / "run"), "--set", f"labels.table={table}"]
    assert main([*words, "--set", "strengths=[3.0]"]) == 0
    assert f"next: diptych models use {tmp_path / 'run'} --store STORE" in capsys.readouterr().out
    assert main(["train", str(run), "-o", str(tmp_path / "other")]) == 1
    assert "nowhere.csv, which is no file" in capsys.readouterr().err


def test_an_export_keeps_the_panel_graph_and_refuses_one_of_another_panel_part(
    start, table, tmp_path, monkeypatch, artifact_of_two
):
    import onnx

    from diptych_export import artifact as module
    from diptych_export.graphs import Graphs

    train(recipe(start, table), tmp_path / "run", quiet=True)
    graphs = Graphs(*(onnx.load(artifact_of_two / f"{part}.onnx") for part in Graphs._fields))
    graphs.pair.doc_string = "another pair graph"
    graphs.panel.doc_string = "another panel graph, which is not written"
    monkeypatch.setattr(module, "export_graphs", lambda network, opset: graphs)
    made = module.export_checkpoint(tmp_path / "run" / BEST, tmp_path / "made", check=False)
    begun = Manifest.load(start)
    assert made.digests["panel.onnx"] == begun.digests["panel.onnx"]
    assert made.digests["pair.onnx"] != begun.digests["pair.onnx"]
    assert made.revision != begun.revision
    assert made.metrics["labels"]["copy"]["same"] > 0
    network, metadata = load_checkpoint(tmp_path / "run" / BEST)
    with torch.no_grad():
        next(network.panel.parameters()).add_(1.0)
    save_checkpoint(network, tmp_path / "run" / BEST, metadata)
    with pytest.raises(ArtifactError, match="has another panel part by now: train it again"):
        module.export_checkpoint(tmp_path / "run" / BEST, tmp_path / "other", check=False)
