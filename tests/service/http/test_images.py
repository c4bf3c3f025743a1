"""The collection over HTTP: adding, listing, reading, removing."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from json import dumps, loads

import pytest
from PIL import Image
from refusals import check_refusal

from diptych.errors import StoreError
from diptych.http.settings import Settings
from diptych.store.open import export_lines


def files(*contents: bytes) -> list:
    return [("image", (f"file-{index}.jpg", data, "image/jpeg")) for index, data in enumerate(contents)]


def test_what_is_stored_is_looked_at_by_a_few_at_once_and_not_waited_for_without_end(serve, collection, monkeypatch):
    gate = threading.Event()
    stats, listed = collection.stats, collection.list
    monkeypatch.setattr(collection, "stats", lambda: gate.wait(20) and stats())
    monkeypatch.setattr(collection, "list", lambda *words, **named: gate.wait(20) and listed(*words, **named))
    with serve(Settings(seconds=1)) as client, ThreadPoolExecutor(8) as pool:
        paths = ["/info", "/v1/images"] * 2
        hanging = [pool.submit(client.get, path) for path in paths]
        time.sleep(0.3)
        late = client.get("/v1/images")
        assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline")
        assert client.get("/healthz").status_code == 200
        gate.set()
        assert [one.result().status_code for one in hanging] == [200] * 4
        assert client.get("/v1/images").status_code == 200


def test_a_new_picture_is_201_and_the_same_again_is_200(client, collection, photo_bytes):
    first = client.post("/v1/images", files=files(photo_bytes(7)), data={"metadata": '{"shelf": 3}'})
    again = client.post("/v1/images", files=files(photo_bytes(7)))
    assert (first.status_code, again.status_code) == (201, 200)
    item = first.json()["data"][0]
    assert item["created"]
    assert not again.json()["data"][0]["created"]
    assert item["id"] == again.json()["data"][0]["id"]
    assert item["metadata"] == {"filename": "file-0.jpg", "shelf": 3}
    assert (item["width"], item["height"], item["original_kept"]) == (96, 64, True)
    assert collection.stats()["pictures"] == 6


def folder_bytes(collection) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(collection.directory.iterdir())}


def test_a_dry_run_names_every_bad_picture_where_the_real_one_stops_at_the_first(
    client, collection, photo_bytes, refused
):
    sent = files(refused["text"][0], photo_bytes(8), refused["truncated"][0], refused["bomb"][0])
    before = folder_bytes(collection)
    answer = client.post("/v1/images", files=sent, data={"dry_run": "true"}).json()
    assert answer["refused"] == 3
    assert [item["position"] for item in answer["data"]] == ["image[0]", "image[1]", "image[2]", "image[3]"]
    assert [item["created"] for item in answer["data"]] == [False, True, False, False]
    for place, name in ((0, "text"), (2, "truncated"), (3, "bomb")):
        item = answer["data"][place]
        assert (item["id"], item["error"]["code"]) == (None, "invalid_picture")
        assert refused[name][1] in item["error"]["message"]
    check_refusal(client.post("/v1/images", files=sent), 422, "invalid_picture", "image[0]")
    assert folder_bytes(collection) == before


def test_the_list_goes_through_all_pictures_page_by_page(reader, shelf):
    seen, after = [], None
    while True:
        page = reader.get("/v1/images", params={"limit": 2} | ({"after": after} if after else {})).json()
        seen += [item["id"] for item in page["data"]]
        after = page["next"]
        assert page["has_more"] == (after is not None)
        if after is None:
            break
    assert seen == [record.id for record in shelf.list(100)]
    assert len(seen) == 5


def test_content_is_the_file_and_the_thumbnail_a_small_jpeg(reader, photo_bytes):
    item = reader.get("/v1/images").json()["data"][0]
    content = reader.get(item["content"])
    assert content.content == photo_bytes(0)
    assert content.headers["content-type"] == "image/jpeg"
    assert "sandbox" in content.headers["content-security-policy"]
    thumbnail = reader.get(item["thumbnail"], params={"side": 48})
    with Image.open(BytesIO(thumbnail.content)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (48, 32))


def test_a_removed_picture_is_gone_everywhere(client, photo_bytes):
    id = client.get("/v1/images").json()["data"][0]["id"]
    assert client.delete(f"/v1/images/{id}").json() == {"id": id, "object": "image", "deleted": True}
    gone = [client.get(f"/v1/images/{id}{path}") for path in ("", "/content", "/thumbnail")]
    for answer in (*gone, client.delete(f"/v1/images/{id}")):
        check_refusal(answer, 404, "unknown_image")
    found = client.post("/v1/search", files={"image": photo_bytes(0)}).json()
    assert id not in [match["id"] for match in found["matches"]]


def test_a_bad_picture_is_refused_everywhere_and_leaves_the_collection_as_it_was(
    client, collection, photo_bytes, data_uri, refused
):
    good, good_uri = photo_bytes(7), data_uri(photo_bytes(7))
    before = (collection.stats()["sequence"], [record.id for record in collection.list(100)])
    for bad, reason in refused.values():
        uri = data_uri(bad)
        for position, path, given in (
            ("image[0]", "images", {"files": files(bad)}),
            ("image[1]", "images", {"files": files(good, bad)}),
            ("image", "images", {"json": {"image": uri}}),
            ("image", "search", {"files": {"image": ("x.jpg", bad)}}),
            ("image", "search", {"json": {"image": uri}}),
            ("documents[1]", "score", {"json": {"queries": good_uri, "documents": [good_uri, uri]}}),
            ("query", "rerank", {"json": {"query": uri, "documents": [good_uri]}}),
            ("images[3]", "embeddings", {"json": {"images": [good_uri] * 3 + [uri]}}),
        ):
            check_refusal(client.post(f"/v1/{path}", **given), 422, "invalid_picture", position, reason)
    assert (collection.stats()["sequence"], [record.id for record in collection.list(100)]) == before


def test_search_answers_both_orders_of_the_same_pictures(reader, shelf, photo_bytes):
    expected = shelf.search(photo_bytes(2), top=3)
    form = reader.post("/v1/search", files={"image": photo_bytes(2)}, data={"top": "3"})
    json = reader.post("/v1/search", json={"image": {"id": shelf.list(5)[2].id}, "top": 3})
    for answer in (form, json):
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert [match["id"] for match in body["matches"]] == [match.id for match in expected.matches]
        assert [match["id"] for match in body["candidates"]] == [match.id for match in expected.candidates]
        assert [match["raw_score"] for match in body["matches"]] == [match.raw_score for match in expected.matches]
        assert [match["rank"] for match in body["matches"]] == [1, 2, 3]
        assert [match["first_rank"] for match in body["candidates"]] == [1, 2, 3]
        assert body["candidates"][0]["similarity"] == pytest.approx(1, abs=1e-3)
        assert set(body["timings"]) == set(expected.timings)


def test_no_candidates_leave_the_first_stage_order_untouched(reader, photo_bytes):
    few = reader.post("/v1/search", files={"image": photo_bytes(2)}, data={"top": "1", "early_stop": "1e-9"}).json()
    assert (few["reranked"], len(few["matches"])) == (1, 1)
    answer = reader.post("/v1/search", files={"image": photo_bytes(2)}, data={"candidates": "0"}).json()
    assert answer["matches"] == answer["candidates"]
    assert {match["relevance_score"] for match in answer["matches"]} == {None}


def test_a_filter_is_taken_in_json_in_a_form_and_in_a_query(reader, shelf, photo_bytes):
    some = {"seed": {"$gte": 2}}
    expected = [match.id for match in shelf.search(photo_bytes(2), filter=some).matches]
    assert len(expected) == 3
    stored = {"id": shelf.list(5)[2].id}
    for answer in (
        reader.post("/v1/search", json={"image": stored, "filter": some}),
        reader.post("/v1/search", files={"image": photo_bytes(2)}, data={"filter": dumps(some)}),
    ):
        assert [match["id"] for match in answer.json()["matches"]] == expected
    page = reader.get("/v1/images", params={"filter": dumps(some), "limit": 2}).json()
    assert [item["metadata"]["seed"] for item in page["data"]] == [2, 3]
    assert page["has_more"]
    for wrong in ('{"a": {"$near": 1}}', "[", "3", "[" * 60_000, dumps({"a": 10**400}), dumps({"a" + ".a" * 450: 1})):
        refused = [
            reader.get("/v1/images", params={"filter": wrong[:1000]}),
            reader.post("/v1/search", files={"image": photo_bytes(2)}, data={"filter": wrong}),
        ]
        for answer in refused:
            assert (answer.status_code, answer.json()["error"]["param"]) == (422, "filter")


def test_an_export_has_a_line_for_every_picture(reader, shelf):
    answer = reader.get("/v1/images/export", params={"embeddings": "true"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [loads(line) for line in answer.text.splitlines()] == list(export_lines(shelf.store, embeddings=True))
    few = reader.get("/v1/images/export", params={"filter": '{"seed": 3}'}).text.splitlines()
    assert [loads(line)["metadata"]["seed"] for line in few] == [3]
    assert reader.get("/v1/images/export", params={"filter": "3"}).status_code == 422


def test_an_export_that_fails_is_an_error_and_no_broken_answer(client, collection, monkeypatch):
    def fail(*_, **__):
        raise StoreError("the disk is gone")

    monkeypatch.setattr(collection.store, "pages", fail)
    answer = client.get("/v1/images/export")
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "the disk is gone")


def test_json_brings_one_picture_or_several_with_the_same_metadata(client, photo_bytes, data_uri):
    uris = [data_uri(photo_bytes(seed)) for seed in (40, 41, 42)]

    def add(**given) -> tuple[int, list]:
        answer = client.post("/v1/images", **given)
        return answer.status_code, [item["metadata"] for item in answer.json()["data"]]

    assert add(json={"images": uris[:2], "metadata": {"label": "shoe"}}) == (201, [{"label": "shoe"}] * 2)
    assert add(json={"image": uris[2]}) == (201, [{}])
    assert add(json={"images": uris[:2], "metadata": {"label": "boot"}}) == (200, [{"label": "boot"}] * 2)
    assert add(files={"images": ("other.jpg", photo_bytes(40))}) == (200, [{"label": "boot"}])
    bad = client.post("/v1/images", json={"images": [uris[0], "AAAA"]})
    check_refusal(bad, 422, "invalid_picture", "images[1]")


def test_the_name_of_a_file_counts_as_metadata_do(client, photo_bytes, data_uri):
    most = client.get("/info").json()["limits"]["metadata_bytes"]
    own = len(dumps({"filename": "file-0.jpg"})) - 1 + len(', "x": ""}')

    def add(length):
        return client.post("/v1/images", files=files(photo_bytes(7)), data={"metadata": f'{{"x": "{"a" * length}"}}'})

    check_refusal(add(most - own + 1), 422, "invalid_request", "metadata", f"this has {most + 1:,}")
    assert add(most - own).status_code == 201
    whole = {"x": "a" * (most - len('{"x": ""}'))}
    assert client.post("/v1/images", json={"image": data_uri(photo_bytes(8)), "metadata": whole}).status_code == 201
    named = [("images", ("n" * 3000 + ".jpg", photo_bytes(9), "image/jpeg"))]
    assert client.post("/v1/images", files=named).status_code == 201


@pytest.mark.parametrize("when", ["found", "added"])
def test_a_picture_that_another_request_removes_while_it_is_added_is_said(
    client, collection, photo_bytes, monkeypatch, when
):
    commit, data = collection.commit, photo_bytes(0 if when == "found" else 7)

    def beside(arrivals):
        if when == "found":
            collection.remove(arrivals[0].content.id)
        kept = commit(arrivals)
        collection.remove(kept[0].id)
        return kept

    monkeypatch.setattr(collection, "commit", beside)
    check_refusal(client.post("/v1/images", files=files(data, photo_bytes(8))), 409, "collection_changed", "collection")
    monkeypatch.undo()
    again = client.post("/v1/images", files=files(data, photo_bytes(8)))
    assert (again.status_code, [item["created"] for item in again.json()["data"]]) == (201, [True, False])
