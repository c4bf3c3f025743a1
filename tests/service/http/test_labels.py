"""Labelled pairs over HTTP: what to ask, what was answered, taken back, and out as a table."""

from __future__ import annotations

import csv
from io import StringIO
from types import SimpleNamespace

import pytest
from refusals import check_refusal

from diptych import Collection
from diptych.dedupe import closer
from diptych.http import pair_jobs
from diptych.labelling.table import COLUMNS
from diptych_runtime.calibration.evidence import NUMBERS, Verification
from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration, OwnQuestion, released_digest
from diptych_runtime.runtime import Runtime

NEXT, LABELS = "/v1/pairs/next", "/v1/pairs/labels"


def ask(client, **options) -> dict:
    answer = client.post(NEXT, json=options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def label(client, a: str, b: str, answer: str, **options) -> dict:
    given = client.post(LABELS, json={"a": a, "b": b, "answer": answer, **options})
    assert given.status_code == 200, given.text
    return given.json()


def test_pairs_are_asked_about_until_each_has_its_label(client, collection):
    met = set()
    while (found := ask(client, count=4))["data"]:
        assert found["complete"] is True
        assert found["question"] == "copy"
        assert found["labels"]["same"] == len(met)
        for pair in found["data"]:
            assert client.get(pair["a"]["thumbnail"]).status_code == 200
            assert pair["reason"] in ("threshold", "disagreement", "spread")
            assert pair["verdict"] in ("same", "likely", "unsure", "different")
            label(client, pair["a"]["id"], pair["b"]["id"], "same")
            met.add(frozenset((pair["a"]["id"], pair["b"]["id"])))
    assert len(met) == 10, "all pairs of five pictures"
    assert {frozenset(one.pair) for one in collection.labels()} == met


@pytest.fixture
def slowly(monkeypatch):
    """Four pairs, or four closer looks, a request."""
    monkeypatch.setattr(pair_jobs, "SECONDS", 0.0)
    monkeypatch.setattr(pair_jobs, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(closer, "BATCH", 4)


def to_the_end(client, path: str) -> list[dict]:
    answers = [client.post(path, json={}).json()]
    while not answers[-1]["complete"]:
        assert len(answers) < 20
        answers.append(client.post(path, json={}).json())
    return answers


@pytest.mark.parametrize("path", [NEXT, "/v1/duplicates"])
def test_closer_looks_are_a_stage_of_their_own(client, slowly, monkeypatch, path):
    look = Verification(1e-9, dict.fromkeys(NUMBERS, 0.0) | {"bias": 4.0}, {"0.01": 0.5, "0.001": 0.9})
    monkeypatch.setattr(Runtime, "verification", look)
    told = [(one["stage"], one["scored"], *one["closer_looks"].values()) for one in to_the_end(client, path)]
    looks = [("closer_looks", 10, taken, 10) for taken in (4, 8, 10, 10)]
    assert told == [("pairs", 10, 0, 0), *looks]


def test_an_answer_is_kept_in_place_of_an_earlier_one_and_taken_back(client, collection):
    a, b = (record.id for record in collection.list(2))
    first = label(client, b, a, "same")
    assert (first["a"], first["b"]) == tuple(sorted((a, b)))
    assert (first["question"], first["answer"]) == ("copy", "same")
    label(client, a, b, "cannot tell")
    label(client, a, b, "different", question="thing")
    answers = client.get(LABELS, params={"question": "copy"}).json()
    assert [one["answer"] for one in answers["data"]] == ["cannot tell"]
    assert client.get(LABELS).json()["counts"] == {"same": 0, "different": 1, "cannot_tell": 1}
    taken = client.delete(LABELS, params={"a": a, "b": b})
    assert (taken.status_code, taken.json()["taken_back"]) == (200, True)
    assert client.get(LABELS, params={"question": "copy"}).json()["data"] == [first]
    for expected in (True, False):
        assert client.delete(LABELS, params={"a": a, "b": b}).json()["taken_back"] is expected


def test_labels_come_page_by_page_and_a_label_costs_no_reading_of_the_others(client, collection, monkeypatch):
    monkeypatch.setattr(type(collection.store), "labels", None)
    ids = [record.id for record in collection.list(4)]
    given = [label(client, ids[0], other, "same") for other in ids[1:]]
    assert label(client, ids[0], ids[1], "different")["answer"] == "different"
    first = client.get(LABELS, params={"limit": 2}).json()
    rest = client.get(LABELS, params={"limit": 2, "after": first["next"]}).json()
    assert [one["answer"] for one in (*first["data"], *rest["data"])] == ["same", "same", "different"]
    assert {(one["a"], one["b"]) for one in (*first["data"], *rest["data"])} == {(one["a"], one["b"]) for one in given}
    assert (first["has_more"], rest["has_more"], rest["next"]) == (True, False, None)
    assert (first["counts"], rest["counts"]) == ({"same": 2, "different": 1, "cannot_tell": 0}, None)
    assert ask(client)["labels"] == first["counts"]
    table = client.get(f"{LABELS}/export")
    assert table.headers["content-type"].startswith("text/csv")
    assert "labels.csv" in table.headers["content-disposition"]
    rows = list(csv.DictReader(StringIO(table.text)))
    assert (list(rows[0]), [row["answer"] for row in rows]) == (list(COLUMNS), ["same", "same", "different"])
    assert client.get(LABELS, params={"limit": 1001}).status_code == 422


def test_a_picture_that_is_removed_while_pairs_are_chosen_is_said(client, collection, monkeypatch):
    ids = collection.store.ids

    def removed(most: int | None = None) -> list[str]:
        found = ids(most)
        collection.remove(found[0])
        return found

    monkeypatch.setattr(collection.store, "ids", removed)
    check_refusal(client.post(NEXT, json={}), 409, "collection_changed", "collection")


def test_what_is_no_answer_is_refused_and_kept_nowhere(client, collection):
    a, b = (record.id for record in collection.list(2))
    for change, status, code, param in (
        ({"answer": "maybe"}, 422, "invalid_request", "answer"),
        ({"b": "0" * 32}, 404, "unknown_image", None),
        ({"b": a}, 422, "same_picture", "b"),
        ({"question": "colour"}, 422, "unknown_question", "question"),
        ({"more": 1}, 422, "invalid_request", None),
    ):
        answer = client.post(LABELS, json={"a": a, "b": b, "answer": "same"} | change)
        check_refusal(answer, status, code, param)
    assert collection.labels() == []


def test_every_route_answers_with_the_calibration_of_the_collection_and_info_names_it(
    collection, running, scorer, data_uri, photo_bytes
):
    manifest = scorer.runtime.released
    own = OwnQuestion(0.5, -1.0, {"0.01": 0.6}, same=30, different=40)
    made = OwnCalibration("tiny", manifest.revision, released_digest(manifest), "2026-11-25", {"match": own})
    query, ids = data_uri(photo_bytes(1)), [record.id for record in collection.list(5)]

    def ask_both(client) -> tuple[list, list]:
        documents = [{"id": id} for id in ids]
        scored = client.post("/v1/score", json={"queries": query, "documents": documents}).json()["data"]
        found = client.post("/v1/search", json={"image": query, "top": 5}).json()["matches"]
        found.sort(key=lambda match: ids.index(match["id"]))
        probabilities = [(match["relevance_score"], match["verdict"]) for match in found]
        return [(one["score"], one["verdict"]) for one in scored], probabilities

    with running(collection, scorer) as client:
        assert client.get("/info").json()["calibration"] is None
        released, _ = ask_both(client)
    made.save(collection.directory / CALIBRATION)
    collection.close()
    with Collection.open(collection.directory, scorer) as again, running(again, scorer) as client:
        info = client.get("/info").json()
        counts = {"match": {"same": 30, "different": 40}}
        assert info["calibration"] == {"made": "2026-11-25", "model": "tiny", "questions": counts}
        assert info["thresholds"] == {"0.01": 0.6}
        scored, found = ask_both(client)
        assert scored == found
        assert scored != released
