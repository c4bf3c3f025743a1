"""A service is asked once its model is proven, and says why until then; a picture that hangs is refused alone."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import check_refusal
from scorers import BrokenScorer, GatedScorer, WrongScorer, wait_until
from stuck import hang

from diptych.collection.registry import Collections
from diptych.errors import DeadlineError, StoreError
from diptych.http import app, health
from diptych.http.health import warm_up
from diptych.http.settings import Settings
from diptych.scoring.decode_pool import DecodePool, _Worker
from diptych.scoring.scorer import Scorer
from diptych_runtime.closer_look import aligned
from diptych_runtime.runtime import Runtime


def is_ready(client) -> bool:
    return client.get("/readyz").status_code == 200


def test_the_service_is_ready_once_the_golden_pair_came_out_right(reader, scorer, shelf):
    expected = warm_up(scorer, Collections.of(shelf))
    assert expected.fault is None
    for path in ("/readyz", "/v2/health/ready"):
        answer = reader.get(path)
        assert answer.status_code == 200
        assert (answer.json()["same"], answer.json()["other"]) == (expected.same, expected.other)
    assert expected.same > expected.other
    assert "diptych_ready 1.0" in reader.get("/metrics").text


def test_what_a_first_closer_look_needs_is_loaded_before_it(shelf):
    aligned._open_graph.cache_clear()
    assert warm_up(Scorer(Runtime.open("photo", provider="cpu", threads=1)), Collections.of(shelf)).proven
    assert aligned._open_graph.cache_info().currsize == 1


def test_a_warm_up_may_take_longer_than_a_request(running, collection, scorer):
    slow = GatedScorer(scorer.runtime)
    slow.gate.clear()
    with running(collection, slow, Settings(seconds=0.2), warm=False) as client:
        time.sleep(0.5)
        assert "warming up" in client.get("/readyz").text
        early = client.post("/v1/embeddings", json={"input": "data:,"})
        assert (early.status_code, early.headers["retry-after"]) == (503, "1")
        slow.gate.set()
        wait_until(lambda: is_ready(client))


@pytest.mark.parametrize("kind", [BrokenScorer, WrongScorer])
def test_a_model_that_is_not_proven_is_asked_nothing_and_what_is_stored_can_still_be_had(
    kind, running, collection, scorer, photo_bytes, data_uri
):
    data = photo_bytes(1)
    uri = data_uri(data)
    with running(collection, kind(scorer.runtime)) as client:
        assert client.get("/healthz").status_code == 200
        assert "diptych_ready 0.0" in client.get("/metrics").text
        for answer in (
            client.get("/readyz"),
            client.post("/v1/score", json={"queries": uri, "documents": uri}),
            client.post("/v1/rerank", json={"query": uri, "documents": [uri]}),
            client.post("/v1/explain", json={"images": [uri, uri]}),
            client.post("/v1/embeddings", json={"input": uri}),
            client.post("/v1/search", files={"image": data}),
            client.post("/v1/duplicates", json={}),
            client.post("/v1/images", files={"image": data}),
        ):
            check_refusal(answer, 503, "not_ready")
            assert int(answer.headers["retry-after"]) > 0
            assert "secret" not in answer.text
        (first, *_) = client.get("/v1/images").json()["data"]
        assert client.get(first["thumbnail"]).status_code == 200


def test_a_warm_up_that_failed_is_repeated_until_it_does_not_and_one_that_found_a_wrong_model_is_not(
    running, collection, scorer, monkeypatch
):
    monkeypatch.setattr(app, "WARM_AGAIN", 0.05)
    broken, wrong = BrokenScorer(scorer.runtime), WrongScorer(scorer.runtime)
    with running(collection, broken) as client:
        assert not is_ready(client)
        broken.broken = False
        wait_until(lambda: is_ready(client))
    with running(collection, wrong) as client:
        time.sleep(0.3)
        assert not is_ready(client)
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
            error = check_refusal(client.get("/readyz"), 503, "not_ready", said="default cannot be searched")
            assert "secret" not in error["message"]
            assert client.post("/v1/score", json={"queries": uri, "documents": uri}).status_code == 200
            broken.undo()
            wait_until(lambda: is_ready(client))


class Counted:
    """A decoder that counts what it is asked for."""

    def __init__(self) -> None:
        self.count, self.answered = 0, 0.0

    def run(self, call: Any) -> Any:
        self.count += 1
        return call()

    def run_all(self, calls: Any) -> Any:
        return [call() for call in calls]


def test_however_many_ask_one_picture_is_decoded_a_second(running, scorer):
    decoder = Counted()
    with running(None, Scorer(scorer.runtime, decoder=decoder)) as client, ThreadPoolExecutor(8) as pool:
        before = decoder.count
        time.sleep(1.1)
        assert all(pool.map(is_ready, [client] * 16))
        assert decoder.count == before + 1


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
        assert is_ready(client)
        assert workers._idle.qsize() == 2
        for worker in workers._idle.queue:
            assert isinstance(worker, _Worker)
            assert worker.process.pid is not None
            os.kill(worker.process.pid, signal.SIGSTOP)
        began = time.monotonic()
        asked = [pool.submit(client.post, "/v1/embeddings", json=body) for _ in range(3)]
        asked += [pool.submit(client.get, "/readyz") for _ in range(3)]
        while not all(one.done() for one in asked):
            before = time.monotonic()
            assert client.get("/healthz").status_code == 200
            assert time.monotonic() - before < 1
            time.sleep(0.05)
        assert time.monotonic() - began < 7
        assert {one.result().status_code for one in asked[:3]} == {504}
        limit = time.monotonic() + 30
        while client.post("/v1/embeddings", json=body).status_code != 200 or not is_ready(client):
            assert time.monotonic() < limit, "the service did not recover"
            time.sleep(0.02)


@pytest.mark.parametrize("others", [True, False])
def test_a_pool_that_is_busy_with_the_pictures_of_others_is_ready(running, scorer, others):
    class Busy(Counted):
        def run(self, call: Any) -> Any:
            self.answered = time.monotonic() if others else 0.0
            raise DeadlineError("no process was free")

    with running(None, Scorer(scorer.runtime, decoder=Busy())) as client:
        assert is_ready(client) is others
        assert ("decoded within 3 s" in client.get("/readyz").text) is not others
        assert client.get("/healthz").status_code == 200


class Hanging:
    """A pool in which one picture never ends."""

    def __init__(self, workers: DecodePool, stuck: bytes) -> None:
        self.workers, self.stuck, self.run, self.answered = workers, stuck, workers.run, 0.0

    def run_all(self, calls: Any) -> Any:
        return self.workers.run_all([self._hung(call) for call in calls])

    def _hung(self, call: partial) -> partial:
        source = call.args[0]
        return partial(hang, **call.keywords) if isinstance(source, bytes) and source == self.stuck else call


def test_a_picture_whose_decoding_hangs_is_refused_and_other_requests_are_answered_meanwhile(
    running, scorer, photo_bytes, data_uri
):
    stuck = photo_bytes(13)
    with (
        DecodePool(2, seconds=1.5) as workers,
        running(None, Scorer(scorer.runtime, decoder=Hanging(workers, stuck))) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        bad = {"input": [data_uri(photo_bytes(1)), data_uri(stuck), data_uri(photo_bytes(2))]}
        good = {"input": [data_uri(photo_bytes(seed)) for seed in (1, 3, 2)]}
        expected = scorer.panels([photo_bytes(seed) for seed in (1, 3, 2)]).embeddings
        asked = pool.submit(client.post, "/v1/embeddings", json=bad)
        answers = []
        while not asked.done():
            answers.append(client.post("/v1/embeddings", json=good))
            time.sleep(0.05)
    refusal = asked.result()
    error = refusal.json()["error"]
    assert (refusal.status_code, error["code"], error["param"]) == (422, "decoding_time", "input[1]")
    assert error["message"].startswith("input[1] took more than 1.5 s to decode and was stopped")
    assert len(answers) > 3
    for answer in answers:
        assert answer.status_code == 200
        np.testing.assert_allclose([item["embedding"] for item in answer.json()["data"]], expected, rtol=1e-5)
