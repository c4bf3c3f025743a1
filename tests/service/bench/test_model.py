import re
from dataclasses import replace

import pytest
from simple_bench import simplify

from diptych.bench.model import REQUESTS, format_figures, measure_model, peak_memory
from diptych.bench.peers import PEERS, list_comparable
from diptych.errors import BenchError


@pytest.fixture(scope="module")
def measured(scorer, photo):
    with pytest.MonkeyPatch.context() as patch:
        simplify(patch, photo)
        return measure_model(scorer, rounds=3, peers=list(PEERS))


@pytest.mark.slow
def test_a_peer_is_measured_beside_the_model(scorer) -> None:
    costs = measure_model(scorer, rounds=3, peers=["vit-s16"])["candidates"]
    assert set(costs) == {"diptych", "vit-s16"}
    assert costs["vit-s16"]["stored"]["100"] > costs["diptych"]["stored"]["100"]


def test_every_figure_is_a_median_between_its_percentiles_and_ratios_are_of_one_run(measured) -> None:
    times = measured["milliseconds"]
    batched = {f"{name} {count}" for name in ("diptych", "late") for count in (1, 32, 100)}
    alone = {f"{name} {work}" for name in ("sift", "cnn", "vit-s16") for work in ("read", 1)}
    assert set(times) == {"sgemm", "pictures", "cold", "search", "diptych read"} | batched | alone
    assert all(0 < low <= middle <= high for middle, low, high in times.values())
    # At best: no less than that of the 10th percentile.
    assert measured["sgemm_gflops"] >= 2 * 1024**3 / times["sgemm"][1] / 1e6 * 0.99
    assert measured["pairs_per_second"] == pytest.approx(100 / times["diptych 100"][0] * 1000, rel=0.01)


def test_a_candidate_costs_its_pair_and_its_share_of_the_reading(measured) -> None:
    times, costs = {name: each[0] for name, each in measured["milliseconds"].items()}, measured["candidates"]
    assert list(costs) == ["diptych", *PEERS]
    read = times["diptych read"]
    assert costs["diptych"]["stored"]["32"] == pytest.approx((read + times["diptych 32"]) / 32, abs=1e-3)
    assert costs["late"]["files"]["100"] == pytest.approx((101 * read + times["late 100"]) / 100, abs=1e-3)
    # Pair by pair a hundred pairs cost a hundred times one, and only the query's share of the reading falls.
    read, pair = times["vit-s16 read"], times["vit-s16 1"]
    assert costs["vit-s16"]["stored"]["100"] == pytest.approx(read / 100 + pair, abs=1e-3)
    # The times are rounded to a thousandth each, the cost is not.
    assert costs["vit-s16"]["files"]["1"] == pytest.approx(2 * read + pair, abs=2e-3)


def test_the_rate_of_a_pair_counts_the_operations_of_what_is_run(measured, scorer) -> None:
    rate = scorer.runtime.manifest.flops["pair"] * measured["pairs_per_second"] / 1e9
    assert measured["pair_of_sgemm"] == pytest.approx(rate / measured["sgemm_gflops"])


def test_the_table_names_machine_model_and_every_peer(measured, scorer) -> None:
    shown = format_figures(measured)
    assert scorer.runtime.revision in shown
    assert scorer.runtime.attention_path in shown
    assert all(PEERS[name] in shown for name in PEERS)
    assert re.search(r"ms each, candidates read before +1 +32 +100 +times ours", shown)
    assert len(re.findall(r"^this model +[\d.,]+ +[\d.,]+ +[\d.,]+ +1\.?0?$", shown, re.MULTILINE)) == 2
    memory = {"memory": {str(REQUESTS[0]): 2**20, str(REQUESTS[1]): 3 * 2**19}}
    assert "1 MiB for 100 pairs, 2 MiB for 10,000: 1.50 times" in format_figures(measured | memory)


def test_too_few_rounds_and_unknown_peers_are_refused(scorer) -> None:
    with pytest.raises(BenchError, match="at least 3 rounds, got 2"):
        measure_model(scorer, rounds=2)
    with pytest.raises(BenchError, match="no peer is called 'clip'; known are late, sift, cnn, vit-s16"):
        measure_model(scorer, peers=["clip"])


def test_late_interaction_stands_beside_no_model_that_keeps_pixels(scorer, monkeypatch) -> None:
    manifest = scorer.runtime.manifest
    side = manifest.panel_size
    pixels = replace(manifest, token_shape=(side, side, 3), byte_channels=0)
    assert (manifest.literal, pixels.literal) == (False, True)
    monkeypatch.setattr(scorer.runtime, "manifest", pixels)
    assert list_comparable(scorer.runtime.manifest) == ["sift", "cnn", "vit-s16"]
    with pytest.raises(BenchError, match=r"'late' relates tokens.*has none but pixels.*--peer: sift, cnn, vit-s16"):
        measure_model(scorer, peers=list(PEERS))


@pytest.mark.slow
def test_ten_thousand_pairs_hold_little_more_memory_than_a_hundred(artifact) -> None:
    few, many = peak_memory(str(artifact)).values()
    assert many < 1.5 * few
