"""Both questions over HTTP, and the closer look at what is taken for a copy."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from refusals import check_refusal

from diptych import Collection, Scorer
from diptych.bench.demo.collection import draw_scenes

ROUTES = {
    "/v1/score": ("queries", "documents", "data"),
    "/v1/rerank": ("query", "documents", "results"),
    "/v1/search": ("image", None, "matches"),
    "/v1/explain": ("images", None, None),
}


@pytest.fixture(scope="module")
def looking(artifact_that_looks) -> Scorer:
    return Scorer.load(str(artifact_that_looks), provider="cpu", threads=1)


@pytest.fixture(scope="module")
def scenes() -> list[bytes]:
    """A drawn scene, a smaller copy of it, and another scene."""

    def png(picture) -> bytes:
        buffer = BytesIO()
        picture.save(buffer, "PNG")
        return buffer.getvalue()

    scene, other = draw_scenes(2)
    return [png(scene), png(scene.resize((300, 220))), png(other)]


@pytest.fixture
def stored(tmp_path, looking, scenes):
    """A collection of the copy and of the other scene, which knows them by their files."""
    with Collection.open(tmp_path / "store", looking, create=True) as collection:
        for name, data in zip(("copy", "other"), scenes[1:], strict=True):
            (tmp_path / f"{name}.png").write_bytes(data)
            collection.add(tmp_path / f"{name}.png", metadata={"name": name})
        yield collection


@pytest.fixture
def ask(stored, running, looking, scenes, data_uri):
    """`ask(route, ids, question="copy")` asks about the first scene and stored pictures."""
    with running(stored, looking) as client:

        def post(route: str, ids: list[str], **options) -> dict:
            query, documents, _ = ROUTES[route]
            named = [{"id": id} for id in ids]
            scene = data_uri(scenes[0], "image/png")
            given = {query: [scene, *named]} if query == "images" else {query: scene}
            answer = client.post(route, json={**given, **({documents: named} if documents else {}), **options})
            assert answer.status_code == 200, answer.text
            return answer.json()

        yield post


def ids_of(stored) -> dict[str, str]:
    return {record.metadata["name"]: record.id for record in stored.list(2)}


def test_score_answers_every_question_and_says_on_top_what_was_asked(ask, stored, looking, scenes):
    ids = ids_of(stored)
    expected = looking.judge([(scenes[0], scenes[1]), (scenes[0], scenes[2])])
    for options in ({"question": "copy"}, {"question": "thing"}, {}):
        answer = ask("/v1/score", [ids["copy"], ids["other"]], **options)
        asked = answer["question"]
        assert asked == options.get("question", "thing")
        for item, judged in zip(answer["data"], expected, strict=True):
            own = item["answers"][asked]
            told = ("raw_score", "verdict", "closer_look")
            assert item["score"] == own["relevance_score"]
            assert [item[key] for key in told] == [own[key] for key in told]
            assert set(item["answers"]) == set(judged) == {"copy", "thing"}
            for name, one in judged.items():
                said = item["answers"][name]
                assert said["relevance_score"] == pytest.approx(one.relevance_score, abs=1e-6)
                assert (said["verdict"], said["closer_look"]) == (one.verdict, one.closer_look)
        assert [item["answers"]["copy"]["verdict"] for item in answer["data"]] == ["same", "different"]


@pytest.mark.parametrize("route", ROUTES)
def test_the_same_pair_has_the_same_verdict_wherever_it_is_asked_about(route, ask, stored):
    ids = ids_of(stored)
    answer = ask(route, [ids["copy"]], question="copy")
    assert answer["question"] == "copy"
    items = answer[ROUTES[route][2]] if ROUTES[route][2] else [answer]
    assert (items[0]["verdict"], items[0]["closer_look"]) == ("same", "taken")
    if route == "/v1/explain":
        assert answer["evidence"]["inliers"] > 20
        for corners in answer["placement"].values():
            assert np.array(corners) == pytest.approx(np.array([(0, 0), (1, 0), (1, 1), (0, 1)]), abs=0.02)
        apart = ask(route, [ids["other"]])
        assert (apart["evidence"]["inliers"], apart["placement"]) == (0, None)
    if route == "/v1/search":
        assert [item["id"] for item in items] == [ids["copy"], ids["other"]]
        assert items[1]["verdict"] == "different"
        assert {item["id"]: item["verdict"] for item in answer["candidates"]} == {
            item["id"]: item["verdict"] for item in items
        }


@pytest.mark.parametrize("route", ROUTES)
def test_without_the_original_no_copy_is_called_the_same_and_the_answer_says_so(route, ask, stored):
    ids = ids_of(stored)
    for record in stored.list(2):
        Path(record.path).write_bytes(b"another file in its place")
    answer = ask(route, [ids["copy"]], question="copy")
    items = answer[ROUTES[route][2]] if ROUTES[route][2] else [answer]
    assert {item["closer_look"] for item in items} == {"not taken"}
    assert "same" not in {item["verdict"] for item in items}


def test_a_question_that_the_model_does_not_answer_is_refused_with_those_it_does(stored, running, looking, reader):
    body = {"queries": {"id": "0"}, "documents": {"id": "0"}, "question": "colour"}
    with running(stored, looking) as client:
        refused = client.post("/v1/score", json=body)
    check_refusal(refused, 422, "unknown_question", "question", "answers the questions copy, thing; got 'colour'")
