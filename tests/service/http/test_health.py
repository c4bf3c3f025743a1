"""A service is asked once its model is proven, and says why until then; a picture that hangs is refused alone."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from refusals import check_refusal
from scorers import BrokenScorer, GatedScorer, WrongScorer, wait_until

from diptych.collection.registry import Collections
from diptych.errors import DeadlineError, StoreError
from diptych.http import app
from diptych.http.health import warm_up
from diptych.http.settings import Settings
from diptych.scoring.decode_pool import ThreadDecoder
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


class Counted(ThreadDecoder):
    """A decoder that counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.count = 0

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


def test_a_probe_that_hangs_is_waited_for_a_while_and_not_longer(running, scorer, monkeypatch):
    monkeypatch.setattr("diptych.http.health.PROBE_SECONDS", 0.1)
    released = threading.Event()

    class Hanging(Counted):
        def run(self, call: Any) -> Any:
            released.wait(30)
            return super().run(call)

    with running(None, Scorer(scorer.runtime, decoder=Hanging())) as client:
        began = time.monotonic()
        assert client.get("/readyz").status_code == 503
        assert time.monotonic() - began < 15
        released.set()
