import pytest

from diptych.bench import load
from diptych.errors import BenchError


@pytest.mark.slow
def test_every_number_of_clients_is_answered_and_those_refused_come_back(artifact, diptych, monkeypatch):
    monkeypatch.setenv("DIPTYCH_WORKERS", "1")
    monkeypatch.setenv("DIPTYCH_WAITING", "0")
    words = ("bench", "load", "--clients", "1,4", "--seconds", 2, "--rounds", 1, "--model", artifact, "--threads", 1)
    result = diptych(*words, "--json").json
    for kind in ("rerank", "search"):
        assert set(result[kind]) == {"1", "4"}
        for one in result[kind].values():
            assert 0 < one["p50"] <= one["p95"] <= one["p99"]
            assert one["pairs_per_second"] == pytest.approx(100 * one["requests_per_second"], rel=0.01)
        assert result[kind]["1"]["refused"] == 0
    assert result["search"]["4"]["refused"] > 0
    lines = load.format_figures(result).splitlines()
    assert sum(line.strip().startswith(("/v1/", "1 ", "4 ")) for line in lines) == 6


@pytest.mark.slow
def test_a_service_that_does_not_start_or_answers_an_error_ends_the_measurement(artifact, scorer, monkeypatch):
    monkeypatch.setenv("DIPTYCH_PICTURES", "50")
    with pytest.raises(BenchError, match="answered 422"):
        load.measure_load(scorer, [1], 0.5, str(artifact))
    monkeypatch.setenv("DIPTYCH_PICTURES", "none")
    with pytest.raises(BenchError, match=r"did not become ready: .*DIPTYCH_PICTURES"):
        load.measure_load(scorer, [1], 0.5, str(artifact))
