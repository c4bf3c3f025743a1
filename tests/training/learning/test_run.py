"""A whole run on small archives: it learns, resumes to the same numbers, ends in a checkpoint that can be served."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small import SCALES, SMALL

from diptych_model import PairConfig, PairNetwork, load_checkpoint, save_checkpoint
from diptych_training.errors import DataError
from diptych_training.learning import run
from diptych_training.learning.pretrained import initial_network
from diptych_training.learning.trainer import Learner
from diptych_training.recipe import Recipe, build_recipe, recipe_from

ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return recipe_from(SMALL)


@pytest.fixture(scope="module")
def finished(recipe: Recipe, archives: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run") / "whole"
    run.train(recipe, directory, data=archives, quiet=True)
    return directory


def notes(directory: Path) -> list[dict]:
    """The metrics of a run, without the seconds."""
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def test_a_run_leaves_its_recipe_metrics_environment_and_a_calibrated_checkpoint(finished: Path) -> None:
    assert build_recipe(finished / "recipe.toml", [], recipe_from) == recipe_from(SMALL)
    assert json.loads((finished / "environment.json").read_text())["torch"] == torch.__version__
    assert [line["step"] for line in notes(finished) if "embedding" in line] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in notes(finished) if "pair" in line] == [3, 4, 5, 6]
    network, metadata = load_checkpoint(finished / "best")
    assert network.config.pixels == 32
    fitted = metadata["questions"].get("match")
    assert fitted["scale"] > 0 if fitted else "matches" in metadata["uncalibrated"]
    assert fitted is None or set(fitted["negatives"]) == {"random", "nearest"}
    assert metadata["metrics"]["score"] == notes(finished)[-1]["validation"]["score"]


def test_an_interrupted_run_keeps_the_step_that_it_was_taking(
    recipe: Recipe, archives: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    learn = Learner.learn

    def interrupted(self: Learner, *args: Any) -> dict[str, float]:
        if self.step == 4:
            signal.raise_signal(signal.SIGINT)
        return learn(self, *args)

    monkeypatch.setattr(Learner, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.train(recipe, tmp_path / "cut", data=archives)
    said = capsys.readouterr().err
    assert f"stopped after step 5; the state of step 5 is kept in {tmp_path / 'cut'}, and" in said
    assert re.match(r"copy: \d+ pictures, judged by micro-AP of \d+ queries held out\n", said)
    monkeypatch.undo()
    run.train(recipe, tmp_path / "cut", data=archives, resume=True, quiet=True)
    assert_same_run(tmp_path / "cut", finished)


def assert_same_run(one: Path, other: Path) -> None:
    assert notes(one) == notes(other)
    weights = [load_checkpoint(directory / "best")[0].state_dict() for directory in (one, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.slow
def test_a_run_killed_with_minus_9_at_any_moment_resumes_to_the_same_numbers(
    recipe: Recipe, archives: Path, finished: Path, tmp_path: Path
) -> None:
    command = f"""
import json, pathlib
from diptych_training.learning import run
from diptych_training.recipe import recipe_from
from diptych_training.run import STATE, MetricsLog
note = MetricsLog.note_values
def tell(*values, **named):
    note(*values, **named)
    print("noted", flush=True)
MetricsLog.note_values = tell
directory = pathlib.Path({str(tmp_path / "killed")!r})
resume = (directory / STATE).exists()
values = json.loads({json.dumps(json.dumps(SMALL))})
run.train(recipe_from(values), directory, data=pathlib.Path({str(archives)!r}), resume=resume, quiet=True)
"""
    # By notes and not by the clock, so that machines of any speed are killed in the middle; a little later than a note,
    # so that it may fall into a step, an examination or the writing of a checkpoint.
    for noted, later in ((1, 0.0), (3, 0.01), (1, 0.03), (2, 0.02)):
        with subprocess.Popen([sys.executable, "-c", command], env=ONE_THREAD, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(noted):
                assert process.stdout.readline() == b"noted\n"
            time.sleep(later)
            process.kill()
        assert process.returncode == -signal.SIGKILL
    subprocess.run([sys.executable, "-c", command], env=ONE_THREAD, check=True, timeout=300)
    assert_same_run(tmp_path / "killed", finished)


def test_a_network_is_tempered_once(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best = shutil.copytree(finished / "best", tmp_path / "best")
    assert "tempered" in load_checkpoint(best)[1]
    monkeypatch.setattr(run, "temper_network", lambda *known: pytest.fail("tempered again"))
    run.temper_checkpoint(best, [], torch.device("cpu"))


def test_a_run_goes_on_with_other_chunks_and_ends_where_it_ended(
    recipe: Recipe, archives: Path, finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "copy")
    before = (tmp_path / "copy" / "metrics.jsonl").read_bytes()
    changed = recipe_from(SMALL | {"checkpoint_every": 1, "learning": SMALL["learning"] | {"chunk": 5}})
    measured = run.train(changed, tmp_path / "copy", data=archives, resume=True, quiet=True)
    assert measured == load_checkpoint(finished / "best")[1]["metrics"]
    assert (tmp_path / "copy" / "metrics.jsonl").read_bytes() == before


def test_a_run_is_not_resumed_on_other_pictures(recipe: Recipe, archives: Path, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(archives, tmp_path / "other")
    with (
        zipfile.ZipFile(archives / "flowers.zip") as whole,
        zipfile.ZipFile(tmp_path / "other" / "flowers.zip", "w") as fewer,
    ):
        for name in whole.namelist():
            lines = whole.read(name)
            fewer.writestr(name, b"".join(lines.splitlines(keepends=True)[:-1]) if name.endswith(".csv") else lines)
    shutil.copytree(finished, tmp_path / "copy")
    with pytest.raises(DataError, match="the pictures are not those that"):
        run.train(recipe, tmp_path / "copy", data=tmp_path / "other", resume=True, quiet=True)


def test_the_score_weighs_the_headline_of_every_task(finished: Path) -> None:
    for line in notes(finished):
        assert all(0 <= value <= 1 for value in line.get("validation", {}).values())
    measured = notes(finished)[-1]["validation"]
    expected = (
        measured["copy_reranked_micro_ap"]
        + 0.5 * measured["catalogue_reranked_recall@1"]
        + 0.5 * measured["instance_reranked_recall@1"]
    ) / 2
    assert measured["score"] == expected


def test_a_gradient_that_is_not_finite_ends_the_run_and_keeps_the_last_good_state(
    recipe: Recipe, archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = Learner.learn

    def spoiled(self: Learner, *args: Any) -> dict[str, float]:
        if self.step == 4:
            next(self.network.pair.parameters()).data.fill_(torch.nan)
        return learn(self, *args)

    monkeypatch.setattr(Learner, "learn", spoiled)
    with pytest.raises(
        DataError, match=r"gradient of step 4 is not finite: begin another run.*state of step 4 is kept"
    ):
        run.train(recipe, tmp_path / "run", data=archives, quiet=True)
    assert torch.load(tmp_path / "run" / "state.pt", weights_only=True)["step"] == 4
    network, _ = load_checkpoint(tmp_path / "run" / "last")
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())


def test_memory_that_does_not_suffice_says_what_to_lower(
    recipe: Recipe, archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(*args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Learner, "_differentiate_step", too_much)
    with pytest.raises(
        DataError, match=r"memory of cpu does not suffice for step 0: resume with a smaller learning.chunk \(now \d+"
    ):
        run.train(recipe, tmp_path / "run", data=archives, quiet=True)


def test_a_run_that_starts_from_another_begins_with_its_panel_part(finished: Path, tmp_path: Path) -> None:
    begun = load_checkpoint(finished / "best")[0]
    values = SMALL | {"start": str(finished / "best"), "network": SMALL["network"] | {"blocks": 2}}
    network = initial_network(recipe_from(values))
    for name, value in begun.panel.state_dict().items():
        assert torch.equal(network.panel.state_dict()[name], value)
    values["network"] = {"encoder": {"depths": [1, 3]}}
    deeper = initial_network(recipe_from(values)).eval()
    pictures = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(deeper.encode(pictures)[1], begun.encode(pictures)[1])
    for name, value in begun.pair.state_dict().items():  # a trunk over the same features
        assert torch.equal(deeper.pair.state_dict()[name], value)
    del values["network"]
    network = initial_network(recipe_from(values))
    for name, value in begun.state_dict().items():
        assert torch.equal(network.state_dict()[name], value)
    for other in ({"widths": [8, 16]}, {"depths": [2, 1]}, {"widths": [8], "depths": [1]}):
        with pytest.raises(DataError, match=r"give widths = \[8, 12\], depths = \[1, 1\]"):
            initial_network(recipe_from(values | {"network": {"encoder": other}}))


def test_a_network_whose_seam_is_opened_keeps_all_of_its_trunk_but_biases_and_segments(tmp_path: Path) -> None:
    torch.manual_seed(0)
    start = PairNetwork(PairConfig.from_dict(SMALL["network"] | {"correspondence": True}))
    for parameter in start.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_checkpoint(start, tmp_path / "start")
    values = {name: SMALL[name] for name in ("tasks", "stages")} | {"start": str(tmp_path / "start")}
    opened = {"seam": "pixels", "segment": "added", "bias": "concatenated", "mixer": {"kind": "msac", "scales": SCALES}}
    for blocks in (1, 2):
        network = initial_network(recipe_from(values | {"network": opened | {"blocks": blocks}}))
        made, begun = network.state_dict(), start.state_dict()
        other = {name for name, value in made.items() if name not in begun or not torch.equal(value, begun[name])}
        if blocks == 1:
            assert {name.rpartition(".")[2] for name in other} == {"table", "x_seg", "z_seg"}
        else:  # a trunk of its own
            assert "pair.blocks.0.feed.1.weight" in other
            assert not any(name.startswith("panel.encoder") for name in other)


@pytest.mark.parametrize("bias", ["panel", "concatenated"])
@pytest.mark.parametrize(("before", "now"), [(48, 32), (32, 48)])
def test_a_run_on_panels_of_another_size_begins_with_what_the_network_before_says_of_them(
    tmp_path: Path, bias: str, before: int, now: int
) -> None:
    torch.manual_seed(0)
    mixer = SMALL["network"]["mixer"] | {"crossing": 0.0}
    shape = SMALL["network"] | {"bias": bias, "segment": "added", "mixer": mixer, "pixels": before}
    shape["correspondence"] = bias == "panel"
    start = PairNetwork(PairConfig.from_dict(shape)).eval()
    for parameter in start.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_checkpoint(start, tmp_path / "start")
    values = {name: SMALL[name] for name in ("learning", "tasks")} | {"stages": [{"pixels": now, "steps": 1}]}
    values |= {"start": str(tmp_path / "start"), "network": {"pixels": now}}
    network = initial_network(recipe_from(values)).eval()
    assert network.config.pixels == now
    a, b = torch.rand(2, 3, 3, now, now, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network(a, b), start(a, b))


def test_a_run_that_goes_on_from_another_says_how_that_one_does_on_its_pictures(
    finished: Path, archives: Path, tmp_path: Path, capsys
) -> None:
    settings = recipe_from(SMALL | {"start": str(finished / "best")})
    settings = replace(settings, stages=settings.stages[-1:])
    run.train(replace(settings, stages=(replace(settings.stages[0], steps=1),)), tmp_path / "on", data=archives)
    reached = load_checkpoint(finished / "best")[1]["metrics"]
    figures = ", ".join(f"{name} {value:.3f}" for name, value in reached.items())
    assert f"{finished / 'best'}, with which it begins: {figures}\n" in capsys.readouterr().err
