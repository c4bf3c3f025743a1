"""The service over a Milvus server: what clients do most, and what they are told while it is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest
from milvus_server import SERVERS, MilvusServer
from refusals import check_refusal

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


def add(client: httpx.Client, *pictures: bytes) -> list[dict]:
    files = [("image", (f"{number}.jpg", data)) for number, data in enumerate(pictures)]
    answer = client.post("/v1/images", files=files)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["data"]


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
    check_refusal(answer, 501, "no_originals", "collection", "?originals=")


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
            check_refusal(answer, 503, "unreachable", "collection")
            assert int(answer.headers["retry-after"]) > 0
            assert time.monotonic() - began < 25
        assert milvus.get("/healthz").status_code == 200
        assert milvus.get("/metrics").status_code == 200
    finally:
        server.start()
    ready(milvus)
    found = milvus.post("/v1/search", files={"image": photo_bytes(1)}).json()["matches"]
    listed = milvus.get("/v1/images").json()["data"]
    assert {one["id"] for one in found} == {one["id"] for one in listed}
    assert len(found) == 3
    assert milvus.post("/v1/duplicates", json={"threshold": 0.9}).json()["complete"]
    assert 'diptych_collection_pictures{collection="default"} 3.0' in milvus.get("/metrics").text
