"""A service is asked once its model is proven, and says why until then."""

from __future__ import annotations

import json
import time

import pytest
from scorers import BrokenScorer, GatedScorer, WrongScorer, wait_until

from diptych.collection.registry import Collections
from diptych.errors import StoreError
from diptych.http import app
from diptych.http.settings import Settings
from diptych.http.warmup import warm_up
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
