import pytest

from diptych import load
from diptych.errors import BenchError


def test_the_service_is_laid_beside_the_engine_at_every_number_of_clients(artifact, diptych):
    result = diptych(
        "bench", "load", "--clients", 1, 3, "--seconds", 1, "--model", artifact, "--threads", 1, "--json"
    ).json
    for kind in ("rerank", "search"):
        assert set(result[kind]["clients"]) == {"1", "3"}
        for one in result[kind]["clients"].values():
            assert one["p50"] <= one["p95"] <= one["p99"]
            assert one["pairs_per_second"] == pytest.approx(100 * one["requests_per_second"], rel=0.01)
            assert one["share"] == pytest.approx(one["pairs_per_second"] / result[kind]["alone_per_second"], rel=0.02)
            assert one["refused"] == 0
    lines = load.text(result).splitlines()
    assert sum(line.startswith("/v1/") for line in lines) == 2
    assert sum(line.strip().startswith(("1 ", "3 ")) for line in lines) == 4


def test_more_clients_than_a_service_takes_come_back_when_they_are_told_to(artifact, diptych, monkeypatch):
    monkeypatch.setenv("DIPTYCH_WORKERS", "1")
    monkeypatch.setenv("DIPTYCH_WAITING", "0")
    options = ("--clients", 4, "--seconds", 2, "--model", artifact, "--threads", 1, "--json")
    result = diptych("bench", "load", *options).json
    assert result["search"]["clients"]["4"]["refused"] > 0
    assert result["search"]["clients"]["4"]["requests_per_second"] > 0


def test_a_service_that_does_not_start_or_answers_an_error_ends_the_measurement(artifact, scorer, monkeypatch):
    monkeypatch.setenv("DIPTYCH_PICTURES", "50")
    with pytest.raises(BenchError, match=r"answered 422: .*at most 49 fit in one request"):
        load.measure(scorer, [1], 1.0, str(artifact))
    monkeypatch.setenv("DIPTYCH_PICTURES", "none")
    with pytest.raises(BenchError, match=r"did not become ready: .*DIPTYCH_PICTURES"):
        load.measure(scorer, [1], 1.0, str(artifact))
