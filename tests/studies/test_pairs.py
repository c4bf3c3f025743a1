"""Studies: variants alike in all but one part, trained on a grid, laid side by side."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from diptych_model import PairNetwork
from diptych_studies import pairs as module
from diptych_studies import variants
from diptych_studies.flops import count_parameters
from diptych_studies.mixers import MIXERS
from diptych_studies.pairs import study_pairs, study_text
from diptych_studies.variants import BASE, ON_PHOTOS, STUDIES, TOLERANCE, choose_variants, equalise_parameters


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Let every network of a study have one block and small panels, and panel parts be taught for two steps."""
    patch.setitem(module.PANEL, "steps", 2)
    patch.setitem(module.PANEL_SHAPE, "pixels", 16)
    for place in (module, variants):
        patch.setattr(place, "BASE", replace(BASE, pixels=16, blocks=1))


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.fixture(scope="module")
def finished(omniglot: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict, list[str]]:
    """The folder of a study of two variants with two seeds each, its result, and what it said had ended."""
    folder, ended = tmp_path_factory.mktemp("study"), []
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        return folder, run(folder, omniglot, finished=ended.append), ended


def run(folder: Path, data: Path, **changes) -> dict:
    settings = {"steps": 2, "seeds": 2, "episodes": 2, "only": ("transformer",), "processes": 0} | changes
    return study_pairs("mixers", folder, data, **settings)


def test_every_mixer_is_in_the_study() -> None:
    assert set(STUDIES["mixers"]()) == set(MIXERS)


@pytest.mark.parametrize("made", [*STUDIES.values(), ON_PHOTOS["ablation"]])
def test_every_variant_differs_in_exactly_one_setting_from_the_one_it_is_laid_beside(made) -> None:
    found = made()
    assert len({variant.config for variant in found.values()}) == len(found) > 8
    for label, variant in found.items():
        own, other = asdict(variant.config), asdict(found[variant.against].config)
        assert sum(own[key] != other[key] for key in own) == (label != variant.against)


@pytest.mark.parametrize("name", STUDIES)
def test_all_variants_of_a_study_have_the_same_parameters_within_a_twentieth(name: str) -> None:
    configs = [variant.config for variant in STUDIES[name]().values()]
    target = max(count_parameters(PairNetwork(config)) for config in configs)
    counts = [count_parameters(PairNetwork(equalise_parameters(config, target))) for config in configs]
    assert max(counts) <= (1 + TOLERANCE) * min(counts)
    assert max(counts) <= 1.005 * min(counts)


def test_a_variant_that_cannot_be_made_as_small_as_the_others_is_refused() -> None:
    with pytest.raises(ValueError, match="the mixer 'msac' cannot be brought to 1000 parameters: it reaches"):
        equalise_parameters(BASE, 1000)


def test_a_study_measures_every_variant_with_every_seed_and_lays_the_baseline_and_the_embedding_beside(
    finished: tuple[Path, dict, list[str]],
) -> None:
    _, result, ended = finished
    assert [row["variant"] for row in result["rows"]] == ["embedding alone", "msac", "transformer"]
    assert sorted(ended) == [
        "mixers-msac-rate-0.002-seed-0",
        "mixers-msac-rate-0.002-seed-1",
        "mixers-transformer-rate-0.002-seed-0",
        "mixers-transformer-rate-0.002-seed-1",
        "panel-0",
        "panel-1",
    ]
    for row in result["rows"]:
        measured = row["accuracy"]
        assert measured["mean"] == pytest.approx(np.mean(measured["by_seed"]))
        assert len(measured["by_seed"]) == 2
    embedding, baseline, _ = result["rows"]
    assert embedding["mflops_stored"] is None
    assert 0 < baseline["mflops_stored"] == pytest.approx(baseline["mflops"] - embedding["mflops"], rel=0.01)
    assert baseline["against"] == "msac"
    assert baseline["difference"]["mean"] == 0
    other = result["rows"][2]
    gained = other["accuracy"]["mean"] - baseline["accuracy"]["mean"]
    assert other["difference"]["mean"] == pytest.approx(gained)
    text = study_text(result)
    assert "transformer" in text
    assert "40 within-alphabet 20-way one-shot trials of 1 alphabets" in text
    assert "512 training pairs" in text


def test_some_variants_bring_those_they_differ_from() -> None:
    assert list(choose_variants(STUDIES["ablation"](), "ablation", ["the paper's literal form"])) == [
        "scales 1,3",
        "segment added",
        "bias concatenated",
        "the paper's literal form",
    ]


def test_an_interval_over_seeds_sees_seeds_and_one_over_alphabets_sees_alphabets() -> None:
    alphabets = np.repeat([0, 1, 2, 3], 5)
    by_seed = np.array([[0.5], [0.6], [0.7]]) * np.ones((1, 20))
    seeds = module._compute_intervals(by_seed, alphabets)
    # Student's t: 4.303 * 0.1 / sqrt(3) to either side.
    assert seeds["over_seeds"] == pytest.approx([0.6 - 0.24843, 0.6 + 0.24843], abs=1e-4)
    assert seeds["over_alphabets"] == pytest.approx([0.6, 0.6])
    by_alphabet = np.ones((3, 1)) * (np.array([0.2, 0.4, 0.6, 0.8])[alphabets])
    places = module._compute_intervals(by_alphabet, alphabets)
    assert places["over_seeds"] == pytest.approx([0.5, 0.5])
    low, high = places["over_alphabets"]
    assert 0.25 < low < 0.35
    assert 0.65 < high < 0.75
    assert module._compute_intervals(by_seed[:1], alphabets)["over_seeds"] is None


@pytest.mark.slow
def test_other_seeds_are_trained_at_the_chosen_rate_alone(
    omniglot: Path, finished: tuple[Path, dict, list[str]], brief: None, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    shutil.copytree(finished[0], folder)
    result = run(folder, omniglot, rates=(2e-3, 2e-2))
    for row in result["rows"][1:]:
        assert (folder / f"mixers-{row['variant']}-rate-0.02-seed-0.json").exists()
        assert (folder / f"mixers-{row['variant']}-rate-0.02-seed-1.json").exists() == (row["rate"] == 2e-2)
