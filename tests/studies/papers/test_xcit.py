from pathlib import Path

import numpy as np
import pytest
import torch

from diptych_studies.mixers.cross_covariance import CrossCovarianceAttention
from diptych_studies.papers import xcit
from diptych_studies.papers.xcit import (
    SELF,
    XCA,
    load_flowers,
    measure_attentions,
    network_of,
    study_xcit,
)


@pytest.fixture(scope="module")
def finished(archives: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    directory = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xcit, "SHAPE", xcit.SHAPE | {"d": 8, "depth": 1, "heads": 2, "class_depth": 1})
        return directory, study_xcit(directory, archives, steps=3, seeds=2, tokens=(4, 16), processes=0)


def test_both_networks_are_trained_with_every_seed_and_measured_on_what_is_held_out(
    finished: tuple[Path, dict], archives: Path
) -> None:
    _, result = finished
    held_out = int(load_flowers(archives)[2].sum())
    assert [row["attention"] for row in result["rows"]] == [XCA, SELF]
    for row in result["rows"]:
        assert len(row["by_seed"]) == 2
        assert row["right"] == pytest.approx(np.mean(row["by_seed"]))
        assert all((share * held_out) % 1 == pytest.approx(0, abs=1e-6) for share in row["by_seed"])
        assert row["over_photos"][0] <= row["right"] <= row["over_photos"][1]
    assert result["rows"][0]["flops"] > 0


def test_the_flowers_have_their_kinds_and_a_tenth_or_so_is_held_out(archives: Path) -> None:
    pixels, labels, held_out = load_flowers(archives)
    assert pixels.shape == (40, 64, 64, 3)
    assert labels.tolist() == [0, 1] * 20
    assert 0 < held_out.sum() < 12


def test_the_networks_differ_in_the_attention_alone() -> None:
    ours, other = network_of(XCA, 5), network_of(SELF, 5)
    rest = [
        {name: tuple(p.shape) for name, p in network.named_parameters() if ".attention." not in name or "class" in name}
        for network in (ours, other)
    ]
    assert rest[0] == rest[1]
    assert len(rest[0]) > 50
    assert not [part for part in other.modules() if isinstance(part, CrossCovarianceAttention)]


def test_operations_grow_with_the_tokens_in_one_and_with_their_square_in_the_other() -> None:
    threads = torch.get_num_threads()
    measured = measure_attentions((16, 64, 256), 8, 2)
    assert torch.get_num_threads() == threads
    counts = {name: [row["mflop"][name] for row in measured["rows"]] for name in (XCA, SELF)}
    assert counts[XCA][2] == pytest.approx(16 * counts[XCA][0])
    assert counts[SELF][2] > 50 * counts[SELF][0]
    assert all(row["ratio"] > 0 and min(row["milliseconds"].values()) > 0 for row in measured["rows"])
