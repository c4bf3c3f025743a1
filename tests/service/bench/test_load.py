import pytest
from at_once import AtOnce

from diptych.bench import load
from diptych.errors import BenchError


@pytest.fixture
def alone(monkeypatch) -> list[int]:
    """With how many callers the bare engine was asked, which answers each of them once a second."""
    asked = []
    monkeypatch.setattr(load, "_measure_alone", lambda call, callers, seconds: asked.append(callers) or float(callers))
    return asked


@pytest.mark.slow
def test_the_service_is_laid_beside_the_engine_at_every_number_of_clients(artifact, diptych, alone):
    result = diptych(
        *("bench", "load", "--clients", "1,3", "--seconds", 1, "--rounds", 2),
        *("--model", artifact, "--threads", 1, "--json"),
    ).json
    for kind in ("rerank", "search"):
        assert set(result[kind]) == {"1", "3"}
        for clients, one in result[kind].items():
            callers = int(clients)  # of which more are better here
            assert one["alone"] == {
                "callers": callers,
                "pairs_per_second": 100 * callers,
                "spread": 2 * [100 * callers],
            }
            assert one["p50"] <= one["p95"] <= one["p99"]
            assert one["pairs_per_second"] == pytest.approx(100 * one["requests_per_second"], rel=0.01)
            low, high = one["shares"]
            assert 0 < low <= one["share"] <= high
            assert one["share"] == pytest.approx((low + high) / 2, abs=0.001)
            assert one["refused"] == 0
    # Once with each number of callers, then with the better one: before all rounds and after each.
    assert alone == 2 * [1, *3 * [1], 1, 3, *3 * [3]]
    lines = load.format_figures(result).splitlines()
    assert sum(line.startswith("/v1/") for line in lines) == 2
    assert sum(line.strip().startswith(("1 ", "3 ")) for line in lines) == 4


@pytest.mark.slow
def test_more_clients_than_a_service_takes_come_back_when_they_are_told_to(artifact, diptych, monkeypatch, alone):
    monkeypatch.setenv("DIPTYCH_WORKERS", "1")
    monkeypatch.setenv("DIPTYCH_WAITING", "0")
    options = ("--clients", 4, "--seconds", 2, "--rounds", 1, "--model", artifact, "--threads", 1, "--json")
    result = diptych("bench", "load", *options).json
    assert result["search"]["4"]["refused"] > 0
    assert result["search"]["4"]["requests_per_second"] > 0


@pytest.mark.slow
def test_a_service_that_does_not_start_or_answers_an_error_ends_the_measurement(artifact, scorer, monkeypatch):
    monkeypatch.setenv("DIPTYCH_PICTURES", "50")
    with pytest.raises(BenchError, match=r"answered 422: .*at most 50 fit in one request"):
        load.measure_load(scorer, [1], 0.5, str(artifact))
    monkeypatch.setenv("DIPTYCH_PICTURES", "none")
    with pytest.raises(BenchError, match=r"did not become ready: .*DIPTYCH_PICTURES"):
        load.measure_load(scorer, [1], 0.5, str(artifact))


def test_the_bare_engine_is_asked_by_so_many_at_once():
    call = AtOnce()
    rate = load._measure_alone(call, 4, 0.3)
    assert call.most == 4
    assert 0 < rate <= 400
