import re

import pytest
from simple_bench import simplify

from diptych.bench.model import PEERS, REQUESTS, measure, peak_memory, text
from diptych.errors import BenchError


@pytest.fixture(scope="module")
def measured(scorer, photo):
    with pytest.MonkeyPatch.context() as patch:
        simplify(patch, photo)
        return measure(scorer, rounds=3, peers=list(PEERS))


@pytest.mark.slow
def test_a_peer_is_measured_beside_the_model(scorer) -> None:
    assert measure(scorer, rounds=3, peers=["vit-s16"])["peers"]["vit-s16"] > 1


def test_every_figure_is_a_median_between_its_percentiles_and_ratios_are_of_one_run(measured) -> None:
    times = measured["milliseconds"]
    assert set(times) == {"sgemm", "pairs", "pictures", "cold", "search", *PEERS}
    assert all(0 < low <= middle <= high for middle, low, high in times.values())
    # At best: no less than that of the 10th percentile.
    assert measured["sgemm_gflops"] >= 2 * 1024**3 / times["sgemm"][1] / 1e6 * 0.99
    assert measured["pairs_per_second"] == pytest.approx(100 / times["pairs"][0] * 1000, rel=0.01)
    assert measured["peers"]["vit-s16"] == pytest.approx(times["vit-s16"][0] / times["pairs"][0] * 100, rel=0.01)


def test_the_rate_of_a_pair_counts_the_operations_of_what_is_run(measured, scorer) -> None:
    rate = scorer.runtime.manifest.flops["pair"] * measured["pairs_per_second"] / 1e9
    assert measured["pair_of_sgemm"] == pytest.approx(rate / measured["sgemm_gflops"])


def test_the_table_names_machine_model_and_every_peer(measured, scorer) -> None:
    shown = text(measured)
    assert scorer.runtime.revision in shown
    assert scorer.runtime.attention_path in shown
    assert all(PEERS[name] in shown for name in PEERS)
    assert re.search(r"a pair costs [\d,]+ times ours", shown)
    memory = {"memory": {str(REQUESTS[0]): 2**20, str(REQUESTS[1]): 3 * 2**19}}
    assert "1 MiB for 100 pairs, 2 MiB for 10,000: 1.50 times" in text(measured | memory)


def test_too_few_rounds_and_unknown_peers_are_refused(scorer) -> None:
    with pytest.raises(BenchError, match="at least 3 rounds, got 2"):
        measure(scorer, rounds=2)
    with pytest.raises(BenchError, match="no peer is called 'clip'; known are vit-s16"):
        measure(scorer, peers=["clip"])


@pytest.mark.slow
def test_ten_thousand_pairs_hold_little_more_memory_than_a_hundred(artifact) -> None:
    few, many = peak_memory(str(artifact)).values()
    assert many < 1.5 * few
