"""Both questions over HTTP, and the closer look at what is taken for a copy."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from diptych import Collection, Scorer
from diptych.bench.demo.collection import draw_scenes

ROUTES = {
    "/v1/score": ("queries", "documents", "data"),
    "/v1/rerank": ("query", "documents", "results"),
    "/v1/search": ("image", None, "matches"),
    "/v1/explain": ("images", None, None),
}
CORNERS = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])


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
    """`ask(route, "copy", "other", question="copy")` asks about the first scene and stored pictures, by their names."""
    ids = {record.metadata["name"]: record.id for record in stored.list(2)}
    with running(stored, looking) as client:

        def post(route: str, *names: str, status: int = 200, **options) -> dict:
            query, documents, _ = ROUTES[route]
            named = [{"id": ids[name]} for name in names]
            scene = data_uri(scenes[0], "image/png")
            given = {query: [scene, *named]} if query == "images" else {query: scene}
            answer = client.post(route, json={**given, **({documents: named} if documents else {}), **options})
            assert answer.status_code == status, answer.text
            return answer.json()

        yield post


def test_score_answers_every_question_and_says_on_top_what_was_asked(ask, looking, scenes):
    expected = looking.judge([(scenes[0], scenes[1]), (scenes[0], scenes[2])])
    for options in ({"question": "copy"}, {"question": "thing"}, {}):
        answer = ask("/v1/score", "copy", "other", **options)
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
    error = ask("/v1/score", "copy", question="colour", status=422)["error"]
    assert (error["code"], error["param"]) == ("unknown_question", "question")
    assert "answers the questions copy, thing; got 'colour'" in error["message"]


def test_a_pair_has_one_verdict_wherever_it_is_asked_about_and_is_not_the_same_without_the_original(ask, stored):
    for route, (*_, results) in ROUTES.items():
        answer = ask(route, "copy", question="copy")
        items = answer[results] if results else [answer]
        assert (answer["question"], items[0]["verdict"], items[0]["closer_look"]) == ("copy", "same", "taken"), route
        if route == "/v1/search":
            assert [item["verdict"] for item in items] == ["same", "different"]
            verdicts = {item["id"]: item["verdict"] for item in items}
            assert {item["id"]: item["verdict"] for item in answer["candidates"]} == verdicts
    why = ask("/v1/explain", "copy", question="copy")
    assert why["evidence"]["inliers"] > 20
    assert all(np.array(corners) == pytest.approx(CORNERS, abs=0.02) for corners in why["placement"].values())
    apart = ask("/v1/explain", "other")
    assert (apart["evidence"]["inliers"], apart["placement"]) == (0, None)
    for record in stored.list(2):
        Path(record.path).write_bytes(b"another file in its place")
    for route, (*_, results) in ROUTES.items():
        answer = ask(route, "copy", question="copy")
        items = answer[results] if results else [answer]
        assert {item["closer_look"] for item in items} == {"not taken"}, route
        assert "same" not in {item["verdict"] for item in items}, route
