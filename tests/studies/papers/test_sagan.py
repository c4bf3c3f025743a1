"""The study of SAGAN: a file a run with its generator beside it, distances, gammas, and a sheet of what is made."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_studies.learning import generation
from diptych_studies.learning.generation import SaganBudget, compute_frechet_distance
from diptych_studies.networks.sagan import SaganConfig
from diptych_studies.papers.sagan import ATTENTION, NONE, draw_sagan, sagan_text, study_sagan

SHAPE = SaganConfig(pixels=16, latent=3, width=2, attend=8, reduction=2)
BUDGET = SaganBudget(batch=3, pictures=8, measured=6, points=2)


def study(directory: Path, **changes) -> dict:
    return study_sagan(
        directory, **{"steps": 4, "seeds": 2, "shape": SHAPE, "budget": BUDGET, "processes": 0} | changes
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    directory = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "features_of", lambda pixels: pixels.mean((1, 2)) / 255)
        return directory, study(directory)


def test_both_networks_have_a_run_for_each_seed_with_their_curves(finished) -> None:
    directory, result = finished
    rows = result["rows"]
    assert [(row["attention"], row["seed"]) for row in rows] == [(n, s) for s in (0, 1) for n in (ATTENTION, NONE)]
    for row in rows:
        assert row["at"] == [0, 2, 4]
        assert len(row["distance"]) == 3
        assert min(row["distance"]) > 0 < row["floor"]
        assert np.shape(row["losses"]) == (4, 2)
        assert np.shape(row["gamma"]) == (4, 2 if row["attention"] == ATTENTION else 0)
    grown = np.array(rows[0]["gamma"])
    assert (grown[0] != 0).all()
    assert (grown[0] != grown[-1]).all()
    assert json.loads((directory / "sagan.json").read_text()) == result


def test_what_is_finished_is_not_computed_again_unless_its_generator_is_lost(
    finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, result = finished
    monkeypatch.setattr(generation, "features_of", lambda pixels: pixels.mean((1, 2)) / 255)
    computed: list[str] = []
    study(directory, finished=computed.append)
    assert computed == []
    lost = directory / f"sagan-{NONE}-seed-1.safetensors"
    before = lost.read_bytes()
    lost.unlink()
    again = study(directory, finished=computed.append)
    assert computed == [lost.stem]
    assert lost.read_bytes() == before
    assert [row["distance"] for row in again["rows"]] == [row["distance"] for row in result["rows"]]


def test_the_table_has_a_line_for_each_and_the_picture_all_pictures(finished, tmp_path: Path) -> None:
    directory, result = finished
    lines = sagan_text(result).splitlines()
    assert [line.split("  ")[0] for line in lines[-3:-1]] == [ATTENTION, NONE]
    assert "4 steps, 2 seeds" in lines[-1]
    draw_sagan(result, directory, tmp_path / "sagan.png")
    with Image.open(tmp_path / "sagan.png") as picture:
        assert picture.width == 1100
        assert len(set(picture.convert("L").tobytes())) > 50


def test_the_distance_is_frechets_of_normal_distributions() -> None:
    rng = np.random.default_rng(0)
    one = rng.standard_normal((500, 3)) @ np.diag([1.0, 2.0, 3.0])
    assert compute_frechet_distance(one, one) == pytest.approx(0, abs=1e-6)
    # The same moved: only the means differ; the same stretched: (s - 2 s)^2 along every axis.
    assert compute_frechet_distance(one, one + np.array([1, -2, 0])) == pytest.approx(5)
    spread = np.trace(np.cov(one, rowvar=False))
    about = one - one.mean(0)
    assert compute_frechet_distance(about, 2 * about) == pytest.approx(spread)
    # Covariances that do not commute: the root of their product, by another way.
    other = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3))
    C, D = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    root = np.sqrt(np.linalg.eigvals(C @ D).real).sum()
    apart = one.mean(0) - other.mean(0)
    assert compute_frechet_distance(one, other) == pytest.approx(apart @ apart + np.trace(C) + np.trace(D) - 2 * root)
    with pytest.raises(ValueError, match=r"two sets of two features or more of one length are needed, got \(1, 3\)"):
        compute_frechet_distance(one[:1], one)
