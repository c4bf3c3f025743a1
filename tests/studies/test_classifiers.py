"""Classifiers of class folders: from a recipe to a checkpoint, and what they learn from."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from diptych.cli.main import main
from diptych_model import Msac
from diptych_studies.classifiers import (
    Budget,
    ClassFolder,
    ClassifierRecipe,
    ClassifierRun,
    as_input,
    labelled_archive,
    name_classes,
    number_classes,
    read_classes,
    recipe_from,
    train,
    train_classifier,
)
from diptych_studies.networks.classifier import ClassifierConfig, load_classifier
from diptych_training.errors import DataError
from diptych_training.run import BEST, METRICS
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
    return ClassifierRecipe(classifier=ClassFolder(str(folder)), network=network, **settings | changes)


def test_a_run_leaves_a_network_that_names_what_it_has_not_seen(folder: Path, tmp_path: Path) -> None:
    found = train(recipe(folder), tmp_path / "run", quiet=True)
    assert found["accuracy"] == found["right"] / found["held_out"] > 0.8
    assert found["interval"][0] < found["accuracy"] <= found["interval"][1]
    assert json.loads((tmp_path / "run" / METRICS).read_text()) == found
    network, classes, metadata = load_classifier(tmp_path / "run" / BEST)
    assert classes == ("blue", "green", "red")
    assert metadata["metrics"].items() <= found.items()
    pictures = read_classes(Classes(str(folder)), 24)
    right = name_classes(network, pictures.validation[0]) == pictures.validation[1]
    assert int(right.sum()) == found["right"]


def test_a_run_that_was_stopped_goes_on_through_the_same_pictures(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClassifierRun, "save_every", 5)
    short = recipe(folder, learning=Budget(steps=12, batch=7, warmup=5))
    expected = train(short, tmp_path / "whole", quiet=True)
    differentiate = ClassifierRun.differentiate

    def stopped(self: ClassifierRun) -> dict[str, float]:
        if self.optimisation.step == 8:
            raise KeyboardInterrupt
        return differentiate(self)

    monkeypatch.setattr(ClassifierRun, "differentiate", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(short, tmp_path / "cut", quiet=True)
    monkeypatch.setattr(ClassifierRun, "differentiate", differentiate)
    assert train(short, tmp_path / "cut", resume=True, quiet=True)["digest"] == expected["digest"]


def test_a_fifth_or_so_of_each_class_is_held_out_and_classes_too_small_for_that_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    pictures = read_classes(Classes(str(folder)), 24)
    assert pictures.pixels.shape == (3 * EACH, 24, 24, 3)
    for label in range(3):
        assert 0 < pictures.held_out[pictures.labels == label].mean() <= 0.5
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").write_bytes((folder / "red" / "0.png").read_bytes())
    with pytest.raises(DataError, match="2 pictures of 2 classes are too few"):
        read_classes(Classes(str(tmp_path)), 24)


def test_the_command_trains_a_network_with_scales_of_its_own_at_each_stage(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scale = "n = 3, m = 3, heads = 1, d_a = 4, d_o = 4, separable = true"
    (tmp_path / "run.toml").write_text(
        f"[classifier]\npictures = '{folder}'\n[network]\ndepths = [1, 1]\nwidth = 4\npixels = 24\n"
        f"[[network.spatial]]\nkind = 'msac'\nscales = [{{ {scale} }}]\n[[network.spatial]]\nkind = 'convolution'\n"
        "[learning]\nsteps = 3\nbatch = 4\n"
    )
    assert main(["study", "classifier", str(tmp_path / "run.toml"), "--out", str(tmp_path / "run")]) == 0
    assert "held-out pictures named rightly" in capsys.readouterr().out
    network, _, _ = load_classifier(tmp_path / "run" / BEST)
    assert sum("sacs" in name for name, _ in network.named_modules()) > 0


def test_one_mixer_stands_in_every_stage_and_what_is_missing_or_unknown_is_refused() -> None:
    pictures = {"classifier": {"pictures": "p"}}
    assert recipe_from(pictures | {"network": {"spatial": {"kind": "msac"}}}).network.spatial == (Msac(),)
    for values, message in (
        ({"classifier": {}}, r"\[classifier\] needs pictures: a folder with a folder for each class"),
        (pictures | {"threads": 0}, "threads of 1 at least, got 0"),
        (pictures | {"learning": {"rte": 1}}, "did you mean 'rate'"),
        (pictures | {"learning": {"smoothing": 1.0}}, "smoothing must be from 0 to below 1"),
    ):
        with pytest.raises((ValueError, DataError), match=message):
            recipe_from(values)


def test_flowers_and_groceries_have_classes_and_others_none(archives: Path) -> None:
    flowers, groceries = (labelled_archive(archives, archive, 16) for archive in ("flowers", "grocery"))
    assert flowers.pixels.shape == (40, 16, 16, 3)
    assert flowers.names == ("daisy", "rose")
    assert flowers.labels.tolist() == [0, 1] * 20
    assert 0 < flowers.held_out.sum() < 12
    assert len(flowers.training[0]) + len(flowers.validation[1]) == 40
    assert len(groceries.names) == 12
    assert groceries.held_out.tolist() == [False] * 24 + [True]  # as the data set has it
    assert number_classes(["b", "a", "b"])[1].tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="of flowers and grocery, not of 'clothing'"):
        labelled_archive(archives, "clothing", 16)


class Mean(nn.Module):
    """Logits from the mean colour of a picture; notes what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.seen = nn.Linear(3, 3), list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return self.head(x.mean((1, 2)))


def test_the_same_seed_gives_the_same_losses_and_another_others() -> None:
    labels, rng = np.arange(30) % 3, np.random.default_rng(0)
    pixels = rng.integers(0, 128, (30, 16, 16, 3), np.uint8)
    pixels[np.arange(30), :, :, labels] += 100

    def losses(seed: int) -> list[float]:
        torch.manual_seed(0)
        network = Mean()
        found = train_classifier(network, pixels, labels, Budget(steps=60, batch=8, rate=0.05, warmup=5), seed)
        assert np.array_equal(name_classes(network, pixels, batch=7), labels)
        return found

    assert losses(1) == losses(1) != losses(2)


def test_pictures_are_moved_and_mirrored_while_learning_and_not_while_answering() -> None:
    network, ramp = Mean(), np.zeros((1, 32, 32, 3), np.uint8)
    ramp[0, :, :, 0], ramp[0, :, :, 1] = np.arange(32)[:, None] * 8, np.arange(32) * 8
    train_classifier(network, ramp, np.zeros(1, np.int64), Budget(steps=20, batch=4), 0)
    seen = torch.cat(network.seen)
    assert len(seen[:, 16, 16, :2].unique(dim=0)) > 20
    across = seen[:, 16, 17, 1] - seen[:, 16, 16, 1]
    assert {round(float(step), 3) for step in across} == {round(8 / 127.5, 3), -round(8 / 127.5, 3)}
    network.seen.clear()
    name_classes(network, ramp)
    assert torch.equal(network.seen[0], as_input(ramp))
