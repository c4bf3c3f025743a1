"""The service over a Milvus server: what clients do most, and what they are told while it is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest
from milvus_server import SERVERS, MilvusServer

from diptych.collection.collection import Collection

_NUMBERS = count()


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> MilvusServer:
    return request.getfixturevalue(request.param)


@pytest.fixture
def milvus(server, running, scorer, tmp_path: Path) -> Iterator[httpx.Client]:
    place = server.place(f"served_{next(_NUMBERS)}", originals=tmp_path / "originals")
    with Collection.open(place, scorer, create=True) as collection, running(collection, scorer) as client:
        ready(client)
        yield client


def ready(client: httpx.Client, status: int = 200) -> httpx.Response:
    end = time.monotonic() + 60
    while (answer := client.get("/readyz")).status_code != status:
        assert time.monotonic() < end, answer.text
        time.sleep(0.1)
    return answer


def add(client: httpx.Client, *pictures: bytes, **metadata: object) -> list[dict]:
    files = [("image", (f"{number}.jpg", data)) for number, data in enumerate(pictures)]
    answer = client.post("/v1/images", files=files, data={"metadata": httpx.Response(200, json=metadata).text})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["data"]


def test_pictures_are_added_found_listed_shown_compared_and_removed(milvus, photo_bytes):
    added = add(milvus, *map(photo_bytes, range(6)), kind="drawn")
    assert [item["created"] for item in added] == [True] * 6
    (again,) = add(milvus, photo_bytes(0), kind="again")
    assert (again["created"], again["metadata"]["kind"]) == (False, "again")
    (other,) = add(milvus, photo_bytes(7), kind="other")

    found = milvus.post("/v1/search", files={"image": photo_bytes(2)}, data={"top": 3, "candidates": 0}).json()
    assert found["matches"][0]["id"] == added[2]["id"]
    for item in found["matches"]:
        assert milvus.get(item["thumbnail"]).headers["content-type"] == "image/jpeg"
    assert milvus.get(added[2]["content"]).content == photo_bytes(2)

    asked = {"image": photo_bytes(2)}
    found = milvus.post("/v1/search", files=asked, data={"filter": '{"kind": "other"}'}).json()
    assert [match["id"] for match in found["matches"]] == [other["id"]]

    page = milvus.get("/v1/images", params={"limit": 4}).json()
    rest = milvus.get("/v1/images", params={"limit": 4, "after": page["next"]}).json()
    assert {item["id"] for item in page["data"] + rest["data"]} == {item["id"] for item in [*added, other]}
    assert (page["has_more"], rest["has_more"]) == (True, False)

    documents = [{"id": item["id"]} for item in added]
    ranked = milvus.post("/v1/rerank", json={"query": {"id": added[0]["id"]}, "documents": documents})
    assert sorted(one["index"] for one in ranked.json()["results"]) == list(range(6))
    missing = milvus.post("/v1/rerank", json={"query": {"id": "f" * 32}, "documents": documents})
    assert (missing.status_code, missing.json()["error"]["code"]) == (422, "unknown_image")

    exported = milvus.get("/v1/images/export").text.splitlines()
    assert len(exported) == 7
    assert milvus.get("/info").json()["collection"]["pictures"] == 7
    assert 'diptych_collection_pictures{collection="default"} 7.0' in milvus.get("/metrics").text
    assert milvus.post("/v1/duplicates", json={"threshold": 0.9}).json()["complete"]

    assert milvus.delete(f"/v1/images/{other['id']}").status_code == 200
    assert milvus.delete(f"/v1/images/{other['id']}").status_code == 404
    assert milvus.get(f"/v1/images/{other['id']}").status_code == 404


def test_two_services_at_once_show_the_same(server, running, scorer, tmp_path, photo_bytes):
    place = server.place(f"served_{next(_NUMBERS)}", originals=tmp_path)
    with (
        Collection.open(place, scorer, create=True) as one,
        Collection.open(place, scorer, create=True) as two,
        running(one, scorer) as first,
        running(two, scorer) as second,
    ):
        (added,) = add(first, photo_bytes(1))
        assert second.get(f"/v1/images/{added['id']}/content").content == photo_bytes(1)
        assert add(second, photo_bytes(1))[0]["created"] is False
        assert second.delete(f"/v1/images/{added['id']}").status_code == 200
        assert first.get(f"/v1/images/{added['id']}").status_code == 404


def test_without_a_folder_for_files_adding_is_refused_and_says_how_to_name_one(server, running, scorer, photo_bytes):
    with (
        Collection.open(server.place("bare"), scorer, create=True) as collection,
        running(collection, scorer) as client,
    ):
        answer = client.post("/v1/images", files={"image": photo_bytes(0)})
    assert answer.status_code == 501
    assert answer.json()["error"]["code"] == "no_originals"
    assert "?originals=" in answer.json()["error"]["message"]


def test_while_milvus_is_away_nothing_hangs_and_afterwards_all_goes_on(milvus, server, photo_bytes):
    add(milvus, *map(photo_bytes, range(3)))
    server.kill()
    try:
        unready = ready(milvus, 503)
        assert unready.json()["error"]["code"] == "not_ready"
        assert int(unready.headers["retry-after"]) > 0
        for ask in (
            lambda: milvus.post("/v1/search", files={"image": photo_bytes(1)}),
            lambda: milvus.post("/v1/images", files={"image": photo_bytes(9)}),
            lambda: milvus.get("/v1/images"),
        ):
            began = time.monotonic()
            answer = ask()
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unreachable"), answer.text
            assert int(answer.headers["retry-after"]) > 0
            assert time.monotonic() - began < 25
        assert milvus.get("/healthz").status_code == 200
        assert milvus.get("/metrics").status_code == 200
    finally:
        server.start()
    ready(milvus)
    found = milvus.post("/v1/search", files={"image": photo_bytes(1)}, data={"candidates": 0}).json()
    assert len(found["matches"]) == 3
    assert len(milvus.get("/v1/images").json()["data"]) == 3
