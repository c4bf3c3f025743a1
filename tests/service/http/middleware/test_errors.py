"""One envelope for every refusal."""

from __future__ import annotations

import pytest
from refusals import check_refusal

from diptych.errors import DeadlineError, DecoderStartError, OverloadedError
from diptych.http.settings import Settings

URI = "data:image/jpeg;base64,AAAA"
JSON, JPEG = {"Content-Type": "application/json"}, {"Content-Type": "image/jpeg"}
FOREIGN = {"Sec-Fetch-Site": "cross-site"}
TEXT = {"type": "text", "text": "a cat"}
ABSENT = {"id": "0123"}
TOPS = (0, -1, 2.5, "many", None, 1001)
TABLE = [
    ("GET", "/nope", {}, 404, "not_found", None),
    ("GET", "/page/nope.js", {}, 404, "not_found", None),
    ("GET", "/page/%2e%2e/app.py", {}, 404, "not_found", None),
    ("DELETE", "/v1/score", {}, 405, "method_not_allowed", None),
    ("GET", "/v1/images/0123", {}, 404, "unknown_image", None),
    ("GET", "/v1/images/0123/content", {}, 404, "unknown_image", None),
    ("GET", "/v1/images?limit=0", {}, 422, "invalid_request", "limit"),
    ("GET", "/v1/images?limit=some", {}, 422, "invalid_request", "limit"),
    ("GET", "/v1/images?after=0123", {}, 404, "unknown_image", None),
    ("POST", "/v1/score", {"content": b"{", "headers": JSON}, 400, "invalid_json", None),
    ("POST", "/v1/search", {"content": b"{", "headers": JSON}, 400, "invalid_json", None),
    ("POST", "/v1/score", {"content": b"queries=1"}, 415, "unsupported_media_type", None),
    ("POST", "/v1/score", {"files": {"image": b"1"}}, 422, "invalid_request", "queries"),
    ("POST", "/v1/search", {"content": b"x", "headers": JPEG}, 415, "unsupported_media_type", None),
    ("POST", "/v1/score", {"json": {"queries": URI}}, 422, "invalid_request", "documents"),
    ("POST", "/v1/score", {"json": {"queries": URI, "documents": []}}, 422, "invalid_request", "documents"),
    ("POST", "/v1/score", {"json": {"queries": URI, "documents": [URI, 7]}}, 422, "invalid_request", "documents[1]"),
    ("POST", "/v1/score", {"json": {"queries": TEXT, "documents": URI}}, 422, "invalid_request", "queries"),
    ("POST", "/v1/score", {"json": [1]}, 422, "invalid_request", None),
    ("POST", "/v1/score", {"json": {"queries": ABSENT, "documents": URI}}, 422, "unknown_image", "queries"),
    ("POST", "/v1/rerank", {"json": {"query": URI, "documents": [URI], "top_n": -1}}, 422, "invalid_request", "top_n"),
    ("POST", "/v1/rerank", {"json": {"query": URI, "documents": [URI], "model": "x"}}, 404, "model_not_found", "model"),
    ("POST", "/rerank", {"json": {"query": URI, "texts": [URI], "documents": [URI]}}, 422, "invalid_request", "texts"),
    ("POST", "/rerank", {"json": {"query": URI, "texts": [URI, TEXT]}}, 422, "invalid_request", "texts[1]"),
    ("POST", "/rerank", {"json": {"query": ABSENT, "texts": [ABSENT]}}, 422, "unknown_image", "query"),
    ("POST", "/rerank", {"json": {"query": URI, "texts": []}}, 422, "invalid_request", "texts"),
    *(("POST", "/v1/search", {"json": {"image": URI, "top": top}}, 422, "invalid_request", "top") for top in TOPS),
    ("POST", "/v1/search", {"files": {"photo": b"1"}}, 422, "invalid_request", "image"),
    ("POST", "/v1/search", {"files": [("image", b"1"), ("image", b"2")]}, 422, "too_many_pictures", None),
    ("POST", "/v1/images", {"files": {"photo": b"1"}}, 422, "invalid_request", "images"),
    ("POST", "/v1/embeddings", {"json": {"input": URI}, "headers": FOREIGN}, 403, "cross_site_request", None),
]


@pytest.mark.parametrize(("method", "path", "request_", "status", "code", "param"), TABLE)
def test_every_refusal_has_the_envelope(reader, method, path, request_, status, code, param):
    check_refusal(reader.request(method, path, **request_), status, code, param)


def test_more_pictures_than_allowed_are_refused_in_every_form_and_no_more_is_looked_at_than_needed(
    serve, photo_bytes, data_uri
):
    uri = data_uri(photo_bytes(1))
    with serve(Settings(pictures=3)) as client:
        for path, body, param in [
            ("/v1/score", {"queries": uri, "documents": [0] * 4}, "documents"),
            ("/v1/score", {"queries": uri, "documents": {"content": [0] * 4}}, "documents"),
            ("/v1/score", {"queries": [uri] * 2, "documents": [uri] * 2}, "queries and documents together"),
            ("/v1/rerank", {"query": uri, "documents": [uri] * 3}, "documents"),
            ("/v1/embeddings", {"images": [uri] * 4}, "images"),
        ]:
            check_refusal(client.post(path, json=body), 422, "too_many_pictures", param)
        for path, files in [
            ("/v1/images", ["image"] * 4),
            ("/v1/score", ["queries", *["documents"] * 3]),
            ("/v1/rerank", ["query", *["documents"] * 3]),
            ("/v1/embeddings", ["images"] * 4),
        ]:
            answer = client.post(path, files=[(name, photo_bytes(n)) for n, name in enumerate(files)])
            check_refusal(answer, 422, "too_many_pictures")
        wrong = client.post("/v1/rerank", json={"query": uri, "documents": [0] * 2})
        assert "more)" not in check_refusal(wrong, 422, "invalid_request", "documents[0]")["message"]
        assert client.post("/v1/rerank", json={"query": uri, "documents": [uri] * 2}).status_code == 200


def test_without_a_collection_pairs_are_scored_and_the_rest_says_what_is_missing(serve, photo_bytes, data_uri):
    uri = data_uri(photo_bytes(1))
    with serve(stored=False) as client:
        assert client.post("/v1/score", json={"queries": uri, "documents": uri}).status_code == 200
        assert client.get("/info").json()["collection"] is None
        for answer in (
            client.get("/v1/images"),
            client.post("/v1/images", files={"image": photo_bytes(1)}),
            client.post("/v1/search", files={"image": photo_bytes(1)}),
            client.post("/v1/score", json={"queries": uri, "documents": {"id": "0123"}}),
            client.post("/v1/explain", json={"images": [{"id": "0123"}, uri], "overlay": True}),
            client.post("/v1/duplicates", json={}),
            client.post("/v1/pairs/next", json={}),
            client.get("/v1/pairs/labels"),
        ):
            check_refusal(answer, 501, "no_collection", said="--store")


def test_a_full_engine_a_deadline_and_a_want_of_decoders_are_told_apart(
    client, scorer, data_uri, photo_bytes, monkeypatch
):
    pair = {"queries": data_uri(photo_bytes(1)), "documents": data_uri(photo_bytes(2))}
    raised: list[Exception] = []

    def refuse(*_: object, **__: object) -> None:
        raise raised[-1]

    monkeypatch.setattr(scorer.scheduler, "logits", refuse)
    for error, status, after in (
        (OverloadedError("too much", seconds=2.2), 429, "3"),
        (DeadlineError("too late"), 504, None),
        (DecoderStartError("none begins"), 503, "1"),
    ):
        raised.append(error)
        answer = client.post("/v1/score", json=pair)
        check_refusal(answer, status, error.code, said=str(error))
        assert answer.headers.get("retry-after") == after


@pytest.mark.parametrize("path", ["/", "/page/app.js"])
def test_a_thousand_ranges_are_answered_like_one_or_none(reader, path):
    whole = reader.get(path)
    answer = reader.get(path, headers={"Range": "bytes=" + ",".join(f"{n}-{n + 1}" for n in range(0, 4000, 2))})
    assert answer.status_code in (200, 206, 400, 416)
    assert len(answer.content) <= len(whole.content) + 1000


def test_a_method_that_is_not_taken_is_answered_with_all_that_are(reader):
    for path, taken in [("/v1/images", "GET, POST"), ("/v1/images/abc", "DELETE, GET"), ("/v1/score", "POST")]:
        answer = reader.put(path)
        check_refusal(answer, 405, "method_not_allowed")
        assert answer.headers["allow"] == taken
