"""Who may ask for what."""

from __future__ import annotations

import base64
import hmac

import pytest
from starlette.datastructures import Headers

from diptych.http.app import create_app
from diptych.http.middleware.auth import find_key, new_key
from diptych.http.middleware.outer import OPEN
from diptych.http.settings import Settings

READ, READER = new_key("reader", "read")
ADMIN, OWNER = new_key("owner", "admin")
CLOSED = Settings(keys=(READER, OWNER))
CHANGING = {
    ("post", "/v1/pairs/labels"),
    ("delete", "/v1/pairs/labels"),
    ("post", "/v1/images"),
    ("delete", "/v1/images/{id}"),
    ("post", "/v1/collections"),
    ("delete", "/v1/collections/{name}"),
}
ASKING = {"score", "rerank", "search", "duplicates", "embeddings", "explain", "pairs/next"}
PAGES = ["/", "/page/app.js", "/openapi.json", "/docs", "/swagger/swagger-ui-bundle.js", "/x"]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def basic(text: bytes) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text).decode()}


@pytest.fixture(scope="module")
def document(shelf, scorer):
    """What the service says of its routes."""
    return create_app(shelf, scorer, settings=CLOSED).openapi()


@pytest.fixture(scope="module")
def closed(running, shelf, scorer):
    """A service that asks for keys, of which nothing is changed."""
    with running(shelf, scorer, CLOSED) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [bearer(READ), {"authorization": f"bearer   {READ}"}, {"X-API-Key": READ}, basic(f"anyone:{READ}".encode())],
)
def test_a_secret_is_taken_in_three_ways(headers, closed):
    assert closed.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        *({}, bearer(READ[:-1]), bearer(READER.digest), {"X-API-Key": ""}, {"Authorization": f"Digest {READ}"}),
        *({"Authorization": "Basic !!!"}, basic(READ.encode()), basic(b"\xff\xfe:\xff")),
    ],
)
def test_without_a_known_key_every_route_is_closed_but_life_and_readiness(headers, closed, document):
    paths = document["paths"]
    assert set(paths) > OPEN
    for path, methods in {**paths, **{page: ["get"] for page in PAGES}}.items():
        for method in methods:
            answer = closed.request(method, path.replace("{id}", "0" * 32), headers=headers)
            if path in OPEN:
                assert answer.status_code in (200, 503)
                continue
            assert answer.status_code == 401, (method, path)
            assert answer.json()["error"]["type"] == "authentication_error"
            challenges = answer.headers.get_list("www-authenticate")
            assert [challenge.split()[0] for challenge in challenges] == ["Bearer", "Basic"]


def test_a_read_key_asks_everything_and_changes_nothing(serve, collection, photo_bytes):
    stored = collection.list(1)[0].id
    before = collection.stats()["sequence"]
    add = {"files": {"image": photo_bytes(30)}}
    with serve(CLOSED) as client:
        assert client.post("/v1/search", files={"image": photo_bytes(1)}, headers=bearer(READ)).status_code == 200
        for method, path in CHANGING:
            body = add if (method, path) == ("post", "/v1/images") else {}
            place = path.format(id=stored, name="default")
            refused = client.request(method, place, headers=bearer(READ), **body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "read_only_key"), path
        assert collection.stats()["sequence"] == before
        assert client.post("/v1/pairs/next", json={}, headers=bearer(READ)).status_code == 200
        assert client.post("/v1/images", headers=bearer(ADMIN), **add).status_code == 201
        assert client.delete(f"/v1/images/{stored}", headers=bearer(ADMIN)).status_code == 200


def test_every_route_that_changes_something_asks_who_it_is(document):
    routes = {(method, path) for path, methods in document["paths"].items() for method in methods if method != "get"}
    asking = {("post", path) for path in ("/score", "/rerank", "/v2/rerank", *(f"/v1/{name}" for name in ASKING))}
    assert routes - asking == CHANGING


def test_all_keys_are_compared_whichever_it_is(monkeypatch):
    compared = []
    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(a) or real(a, b))
    assert find_key((READER, OWNER), Headers(bearer(READ))) == READER
    assert find_key((READER, OWNER), Headers(bearer("wrong"))) is None
    assert compared == [READER.digest, OWNER.digest] * 2


def test_the_document_says_that_a_key_is_asked_for_and_where_not(document, shelf, scorer):
    assert document["security"] == [{"bearer": []}, {"basic": []}, {"header": []}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "basic", "header"}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert ("401" in operation["responses"]) == (path not in OPEN) == (operation.get("security") != [])
    assert "security" not in create_app(shelf, scorer).openapi()
