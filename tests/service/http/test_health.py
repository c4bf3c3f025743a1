"""A service is asked once its model is proven, and says why until then."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scorers import BrokenScorer, GatedScorer, WrongScorer, wait_until

from diptych.collection.registry import Collections
from diptych.errors import DeadlineError, StoreError
from diptych.http import app, health
from diptych.http.health import Probe, warm_up
from diptych.http.settings import Settings
from diptych.scoring.decode_pool import DecodePool, _Worker
from diptych.scoring.scorer import Scorer
from diptych_runtime.closer_look import aligned
from diptych_runtime.runtime import Runtime


def test_the_service_is_ready_once_the_golden_pair_came_out_right(reader, scorer, shelf):
    expected = warm_up(scorer, Collections.of(shelf))
    assert expected.fault is None
    for path in ("/readyz", "/v2/health/ready"):
        answer = reader.get(path)
        assert answer.status_code == 200
        assert (answer.json()["same"], answer.json()["other"]) == (expected.same, expected.other)
    assert expected.same > expected.other


def test_what_a_first_closer_look_needs_is_loaded_before_it(shelf):
    aligned._session.cache_clear()
    warmed = warm_up(Scorer(Runtime.open("photo", provider="cpu", threads=1)), Collections.of(shelf))
    assert warmed.proven
    assert aligned._session.cache_info().currsize == 1


def test_a_warm_up_may_take_longer_than_a_request(running, collection, scorer):
    slow = GatedScorer(scorer.runtime)
    slow.gate.clear()
    with running(collection, slow, Settings(seconds=0.2), warm=False) as client:
        time.sleep(0.5)
        assert "warming up" in client.get("/readyz").text
        early = client.post("/v1/embeddings", json={"input": "data:,"})
        assert (early.status_code, early.headers["retry-after"]) == (503, "1")
        slow.gate.set()
        wait_until(lambda: client.get("/readyz").status_code == 200)


@pytest.mark.parametrize("kind", [BrokenScorer, WrongScorer])
def test_a_model_that_is_not_proven_is_asked_nothing_and_what_is_stored_can_still_be_had(
    kind, running, collection, scorer, photo_bytes, data_uri
):
    data = photo_bytes(1)
    uri = data_uri(data)
    with running(collection, kind(scorer.runtime)) as client:
        assert client.get("/readyz").status_code == 503
        assert "secret" not in client.get("/readyz").text
        assert client.get("/healthz").status_code == 200
        assert "diptych_ready 0.0" in client.get("/metrics").text
        for answer in (
            client.post("/v1/score", json={"queries": uri, "documents": uri}),
            client.post("/v1/rerank", json={"query": uri, "documents": [uri]}),
            client.post("/v1/explain", json={"images": [uri, uri]}),
            client.post("/v1/embeddings", json={"input": uri}),
            client.post("/v1/search", files={"image": data}),
            client.post("/v1/duplicates", json={}),
            client.post("/v1/images", files={"image": data}),
        ):
            assert answer.status_code == 503, answer.request.url
            assert answer.json()["error"]["code"] == "not_ready"
            assert int(answer.headers["retry-after"]) > 0
            assert "secret" not in answer.text
        (first, *_) = client.get("/v1/images").json()["data"]
        assert client.get(first["thumbnail"]).status_code == 200


def test_a_warm_up_that_failed_is_repeated_until_it_does_not(running, collection, scorer, monkeypatch):
    monkeypatch.setattr(app, "WARM_AGAIN", 0.05)
    broken = BrokenScorer(scorer.runtime)
    with running(collection, broken) as client:
        assert client.get("/readyz").status_code == 503
        broken.broken = False
        wait_until(lambda: client.get("/readyz").status_code == 200)
    wrong = WrongScorer(scorer.runtime)
    with running(collection, wrong) as client:
        before = client.get("/readyz").text
        time.sleep(0.3)
        assert client.get("/readyz").json()["error"]["message"] == json.loads(before)["error"]["message"]
        assert wrong.asked == 1


def test_a_collection_that_cannot_be_searched_makes_the_service_unready_and_scores_go_on(
    running, collection, scorer, photo_bytes, data_uri, monkeypatch
):
    monkeypatch.setattr(app, "WARM_AGAIN", 0.05)
    uri = data_uri(photo_bytes(1))

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the secret of the house")

    with monkeypatch.context() as broken:
        broken.setattr(collection, "search", fail)
        with running(collection, scorer) as client:
            answer = client.get("/readyz")
            assert answer.status_code == 503
            assert "the collection default cannot be searched" in answer.text
            assert "secret" not in answer.text
            assert client.post("/v1/score", json={"queries": uri, "documents": uri}).status_code == 200
            broken.undo()
            wait_until(lambda: client.get("/readyz").status_code == 200)


class Counted:
    """A decoder that waits for its gate."""

    def __init__(self) -> None:
        self.count, self.gate, self.answered = 0, threading.Event(), 0.0

    def run(self, call: Any) -> Any:
        self.count += 1
        self.gate.wait(10)
        return call()

    def each(self, calls: Any) -> Any:
        return [call() for call in calls]


def test_however_many_ask_one_picture_is_decoded_at_a_time_and_one_a_second(scorer):
    decoder = Counted()
    asked = Probe(Scorer(scorer.runtime, decoder=decoder))
    first = [asked.start_probe() for _ in range(1000)]
    assert len(set(map(id, first))) == 1
    decoder.gate.set()
    assert first[0].result(10)
    assert asked.start_probe() is first[0]
    time.sleep(1.1)
    assert asked.start_probe().result(10)
    assert decoder.count == 2


def test_stopped_decoders_are_answered_in_time_said_by_readyz_and_replaced(
    running, scorer, photo_bytes, data_uri, monkeypatch
):
    monkeypatch.setattr(health, "_FRESH", 0.0)
    body = {"input": data_uri(photo_bytes(1))}
    with (
        DecodePool(2) as workers,
        running(None, Scorer(scorer.runtime, decoder=workers), Settings(seconds=2.0)) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        assert client.get("/readyz").status_code == 200
        assert workers._idle.qsize() == 2
        for worker in workers._idle.queue:
            assert isinstance(worker, _Worker)
            assert worker.process.pid is not None
            os.kill(worker.process.pid, signal.SIGSTOP)
        began = time.monotonic()

        def timed(path: str) -> tuple[Any, float]:
            answer = client.get(path) if path.startswith("/readyz") else client.post(path, json=body)
            return answer, time.monotonic() - began

        asked = [pool.submit(timed, path) for path in ["/v1/embeddings"] * 3 + ["/readyz"] * 3]
        while not all(one.done() for one in asked):
            before = time.monotonic()
            assert client.get("/healthz").status_code == 200
            assert time.monotonic() - before < 1
            time.sleep(0.05)
        answers = [one.result() for one in asked]
        assert {answer.status_code for answer, _ in answers[:3]} == {504}
        assert max(seconds for _, seconds in answers) < 6
        limit = time.monotonic() + 30
        while client.post("/v1/embeddings", json=body).status_code != 200 or client.get("/readyz").status_code != 200:
            assert time.monotonic() < limit, "the service did not recover"
            time.sleep(0.02)


@pytest.mark.parametrize("others", [True, False])
def test_a_pool_that_is_busy_with_the_pictures_of_others_is_ready(scorer, others):
    class Busy(Counted):
        def run(self, call: Any) -> Any:
            self.answered = time.monotonic() if others else 0.0
            raise DeadlineError("no process was free")

    assert Probe(Scorer(scorer.runtime, decoder=Busy())).start_probe().result(5) is others


def test_readyz_says_why_when_nothing_is_decoded(running, scorer, monkeypatch):
    monkeypatch.setattr(health, "PROBE_SECONDS", 1.0)
    decoder = Counted()
    with running(None, Scorer(scorer.runtime, decoder=decoder), warm=False) as client:
        limit = time.monotonic() + 30
        while "decoded within 1 s" not in (answer := client.get("/readyz")).text:
            assert time.monotonic() < limit, answer.text
            time.sleep(0.02)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")
        assert client.get("/healthz").status_code == 200
        decoder.gate.set()
        while client.get("/readyz").status_code != 200:
            assert time.monotonic() < limit
            time.sleep(0.02)
