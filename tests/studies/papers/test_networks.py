"""The study of MSAC-ResNet and MSAC-DenseNet: twins of equal operations, a row a run, and the rate each stands with."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from diptych_model import Msac
from diptych_studies.classifiers import recipe_from
from diptych_studies.networks.classifier import ClassifierConfig, classifier_flops
from diptych_studies.papers import networks
from diptych_studies.papers.networks import (
    COLUMNS,
    MSACS,
    list_widths,
    select_standing_runs,
    study_networks,
    twins,
)
from diptych_training.recipe import build_recipe

SMALL = {name: replace(config, depths=(1, 1), width=4, spatial=config.spatial[1:]) for name, config in MSACS.items()}


def study(directory: Path, archives: Path, **changes) -> list[dict]:
    return study_networks(
        directory, archives, **{"steps": 2, "seeds": 2, "rates": (1e-3, 1e-2), "processes": 0} | changes
    )


@pytest.fixture(scope="module")
def finished(archives: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    directory = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "MSACS", SMALL)
        return directory, study(directory, archives)


@pytest.mark.slow
def test_a_twin_has_the_operations_of_its_network_within_five_percent_and_no_attention() -> None:
    found = twins(5)
    assert list(found) == ["ResNet", "MSAC-ResNet", "DenseNet", "MSAC-DenseNet"]
    for name, config in MSACS.items():
        plain = found[name.removeprefix("MSAC-")]
        assert plain.spatial == ()
        assert classifier_flops(plain, 5) == pytest.approx(classifier_flops(config, 5), rel=0.05)


def test_every_stage_of_the_msac_networks_has_scales_of_its_own() -> None:
    for config in MSACS.values():
        assert all(isinstance(mixer, Msac) for mixer in config.spatial)
        sizes = [{scale.n for scale in mixer.scales} for mixer in config.spatial if isinstance(mixer, Msac)]
        assert sizes == [{3, 5}, {1, 3}, {1}]


@pytest.mark.slow
def test_every_network_is_trained_at_each_rate_once_and_at_its_best_with_every_seed(finished) -> None:
    directory, rows = finished
    assert len(rows) == 4 * (2 + 1)
    for name in twins(2):
        found = select_standing_runs([row for row in rows if row["network"] == name])
        assert sorted(row["seed"] for row in found) == [0, 1]
        assert len({row["rate"] for row in found}) == 1
        first = [row for row in rows if row["network"] == name and row["seed"] == 0]
        assert found[0]["curve"][-1] == min(row["curve"][-1] for row in first)
    with (directory / "networks-flowers.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert tuple(written[0]) == COLUMNS
    assert [line["curve"].split() for line in written] == [[str(loss) for loss in row["curve"]] for row in rows]


def test_the_sweep_has_convolutions_and_attention_at_every_width(archives: Path, tmp_path: Path, monkeypatch) -> None:
    assert [config.width for config in list_widths().values()] == [8, 8, 16, 16, 24, 24, 32, 32]
    some = {name: replace(config, depths=(1,)) for name, config in list_widths((8,)).items()}
    monkeypatch.setattr(networks, "list_widths", lambda: some)
    rows = study(tmp_path, archives, sweep=True, seeds=1, rates=(1e-3,))
    assert [row["network"] for row in rows] == ["convolution, 8", "stand-alone attention, 8"]
    assert (tmp_path / "widths-flowers.csv").exists()
    assert ClassifierConfig.from_dict(some["stand-alone attention, 8"].to_dict()).width == 8


def test_the_recipe_of_the_repository_is_the_msac_resnet_of_the_study() -> None:
    recipe = Path(__file__).parents[3] / "training/recipes/classifier.toml"
    assert build_recipe(recipe, [], recipe_from).network == MSACS["MSAC-ResNet"]
