"""Work, deadlines and queues, and what the service says of itself."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from scorers import GatedScorer, wait_until

from diptych.http.settings import Settings
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.decoder import FORMATS


def test_health_answers_during_work_and_a_full_queue_is_429(running, collection, scorer, photo_bytes, data_uri):
    gated = GatedScorer(scorer.runtime)
    uri = data_uri(photo_bytes(1))
    settings = Settings(workers=1, waiting=1, stuck_seconds=0.05)
    with running(collection, gated, settings) as client, ThreadPoolExecutor(3) as pool:
        gated.gate.clear()
        ask = lambda: client.post("/v1/score", json={"queries": uri, "documents": uri})  # noqa: E731
        try:
            asked = [pool.submit(ask) for _ in range(3)]
            wait_until(lambda: "stuck" in client.get("/readyz").text)
            assert client.get("/healthz").json() == {"status": "ok"}
            wait_until(lambda: any(one.done() for one in asked))
            (refused,) = [one.result() for one in asked if one.done()]
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"]["type"] == "overloaded_error"
        finally:
            gated.gate.set()
        assert sorted(answer.result().status_code for answer in asked) == [200, 200, 429]
        assert ask().status_code == 200


def test_info_and_models_tell_what_really_runs(reader, scorer):
    info = reader.get("/info").json()
    runtime = scorer.runtime
    assert (info["model"], info["revision"]) == (runtime.name, runtime.revision)
    assert (info["provider"], info["threads"]) == (runtime.provider, runtime.threads)
    assert info["thresholds"] == runtime.thresholds
    assert info["questions"] == {
        "match": {"thresholds": runtime.thresholds, "verdicts": verdict_thresholds(runtime.thresholds), "negatives": {}}
    }
    own = {"metadata_bytes", "picture_side", "duplicates_pictures", "duplicates_pairs"}
    bounding_none = {"keys", "hosts", "url_hosts", "url_private", "stuck_seconds", "drain_seconds", "log"}
    bounds = Settings().model_dump(exclude={*bounding_none, "open_collections"})
    assert {name: value for name, value in info["limits"].items() if name not in own} == bounds
    assert own < set(info["limits"])
    assert info["collection"]["pictures"] == 5
    assert info["formats"] == list(FORMATS)
    assert [model["id"] for model in reader.get("/v1/models").json()["data"]] == [runtime.name]


@pytest.fixture
def gate(scorer, monkeypatch):
    """While it is closed, no pair of the model is scored."""
    gate = threading.Event()
    gate.set()
    real = scorer.runtime.logits_on_this_thread
    monkeypatch.setattr(scorer.runtime, "logits_on_this_thread", lambda a, b: gate.wait(30) and real(a, b))
    yield gate
    gate.set()


def test_a_request_that_takes_too_long_is_504_and_what_is_left_of_it_is_not_computed(
    serve, scorer, gate, data_uri, photo_bytes
):
    uri = data_uri(photo_bytes(1))
    ask = {"queries": uri, "documents": [uri] * 200}
    with serve(Settings(seconds=0.3)) as client:
        gate.clear()
        began = time.monotonic()
        answer = client.post("/v1/score", json=ask)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline")
        assert 0.3 <= time.monotonic() - began < 3
        assert scorer.scheduler.waiting == 0
        gate.set()
        assert client.post("/v1/score", json={"queries": uri, "documents": uri}).status_code == 200


def test_head_is_answered_wherever_get_is_with_the_same_head_and_no_body(reader):
    paths = [path for path, item in reader.get("/openapi.json").json()["paths"].items() if "get" in item]
    asked = ["/", "/docs", "/openapi.json", *(path for path in paths if "{" not in path)]
    assert len(asked) > 8
    for path in asked:
        got, head = reader.get(path), reader.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
    assert reader.head("/v1/nothing").status_code == 404
    assert reader.head("/v1/score").status_code == 405


def test_a_client_that_hangs_up_is_no_timeout_of_the_service_and_what_it_left_is_not_computed(
    serve, scorer, gate, photo_bytes, data_uri, caplog
):
    uri = data_uri(photo_bytes(1))
    with serve() as client, caplog.at_level(logging.INFO, "diptych.access"):
        gate.clear()
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/score", json={"queries": uri, "documents": [uri] * 200}, timeout=0.5)
        wait_until(lambda: 'reason="client_left"' in client.get("/metrics").text)
        assert scorer.scheduler.waiting == 0
        metrics = client.get("/metrics").text
        gate.set()
        assert client.post("/v1/score", json={"queries": uri, "documents": uri}).status_code == 200
    assert 'diptych_rejections_total{reason="client_left"} 1.0' in metrics
    assert 'route="/v1/score",status="499"' in metrics
    assert 'reason="deadline"' not in metrics
    (line, _) = [record for record in caplog.records if getattr(record, "path", "") == "/v1/score"]
    assert (line.levelno, line.status, line.error) == (logging.INFO, 499, "client_left")  # pyright: ignore[reportAttributeAccessIssue]
