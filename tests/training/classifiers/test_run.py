"""A classifier of class folders: from a recipe to a checkpoint, resumed, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from diptych.cli.main import main
from diptych_model.networks.classifier import ClassifierConfig, load_classifier
from diptych_training.classifiers import run
from diptych_training.classifiers.recipe import ClassFolder, ClassifierRecipe
from diptych_training.classifiers.run import BEST, METRICS, STATE, classify, labelled_folder
from diptych_training.classifiers.training import Budget, answers
from diptych_training.errors import DataError
from diptych_training.tasks.labelled import Classes

EACH = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each of three colours, of pictures of noise in which it prevails."""
    folder, rng = tmp_path_factory.mktemp("colours"), np.random.default_rng(0)
    for channel, name in enumerate(("red", "green", "blue")):
        (folder / name).mkdir()
        for number in range(EACH):
            pixels = rng.integers(0, 128, (24, 24, 3), np.uint8)
            pixels[..., channel] += 100
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def recipe(folder: Path, **changes: Any) -> ClassifierRecipe:
    network = ClassifierConfig("resnet", (1, 1), 4, 24)
    settings: dict[str, Any] = {"learning": Budget(steps=60, batch=8, rate=1e-2, warmup=5), "threads": 1}
    return ClassifierRecipe(ClassFolder(str(folder)), network, **settings | changes)


def test_a_run_leaves_a_network_that_names_what_it_has_not_seen(folder: Path, tmp_path: Path) -> None:
    found = classify(recipe(folder), tmp_path / "run", quiet=True)
    assert found["accuracy"] == found["right"] / found["held_out"] > 0.8
    assert found["interval"][0] < found["accuracy"] <= found["interval"][1]
    assert json.loads((tmp_path / "run" / METRICS).read_text()) == found
    network, classes, metadata = load_classifier(tmp_path / "run" / BEST)
    assert classes == ("blue", "green", "red")
    assert metadata["metrics"] == found
    pictures = labelled_folder(Classes(str(folder)), 24)
    right = answers(network, pictures.validation[0]) == pictures.validation[1]
    assert int(right.sum()) == found["right"]


def test_a_run_leaves_the_program_its_number_of_threads(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "labelled_folder", lambda *_: seen.append(torch.get_num_threads()) or labelled_folder(*_))
        with pytest.raises(DataError):
            classify(recipe(tmp_path / "nowhere", threads=before + 1), tmp_path / "run", quiet=True)
    assert (seen, torch.get_num_threads()) == ([before + 1], before)


def test_a_fifth_or_so_of_each_class_is_held_out(folder: Path) -> None:
    pictures = labelled_folder(Classes(str(folder)), 24)
    assert pictures.pixels.shape == (3 * EACH, 24, 24, 3)
    for label in range(3):
        assert 0 < pictures.held_out[pictures.labels == label].mean() <= 0.5


def test_a_run_is_resumed_and_not_begun_twice_nor_with_another_recipe(folder: Path, tmp_path: Path) -> None:
    short = recipe(folder, learning=Budget(steps=50, batch=4, warmup=5))
    found = classify(short, tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / STATE).exists()
    assert classify(short, tmp_path / "run", resume=True, quiet=True) == found
    with pytest.raises(DataError, match="has a run already: add --resume"):
        classify(short, tmp_path / "run", quiet=True)
    with pytest.raises(DataError, match="begun with another recipe"):
        classify(recipe(folder, seed=1), tmp_path / "run", resume=True, quiet=True)
    with pytest.raises(DataError, match="has no run to resume"):
        classify(short, tmp_path / "other", resume=True, quiet=True)


def test_the_command_trains_a_network_with_scales_of_its_own_at_each_stage(
    folder: Path, tmp_path: Path, capsys
) -> None:
    scale = "n = 3, m = 3, heads = 1, d_a = 4, d_o = 4, separable = true"
    (tmp_path / "run.toml").write_text(
        f"""
        [classifier]
        pictures = "{folder}"
        [network]
        depths = [1, 1]
        width = 4
        pixels = 24
        [[network.spatial]]
        kind = "msac"
        scales = [{{ {scale} }}]
        [[network.spatial]]
        kind = "convolution"
        [learning]
        steps = 3
        batch = 4
        """
    )
    assert main(["train", str(tmp_path / "run.toml"), "--out", str(tmp_path / "run")]) == 0
    assert "held-out pictures named rightly" in capsys.readouterr().out
    network, _, _ = load_classifier(tmp_path / "run" / BEST)
    assert sum("sacs" in name for name, _ in network.named_modules()) > 0


def test_classes_too_small_to_hold_out_of_are_refused(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").write_bytes((folder / "red" / "0.png").read_bytes())
    with pytest.raises(DataError, match="2 pictures of 2 classes are too few"):
        labelled_folder(Classes(str(tmp_path)), 24)
