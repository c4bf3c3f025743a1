"""The edge around an application of a few lines."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from diptych.http.middleware.auth import Key, new_key
from diptych.http.middleware.body_limits import BodyLimits
from diptych.http.middleware.outer import OuterMiddleware, is_foreign_name, is_foreign_page

SECRET, KEY = new_key("reader", "read")


async def count(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers how many bytes it was sent."""
    try:
        body = await Request(scope, receive).body()
    except HTTPException as error:
        await Response(error.detail, error.status_code, error.headers)(scope, receive, send)
        return
    await Response(f"{len(body)} {scope['state']['request_id']}")(scope, receive, send)


def ask(
    app,
    *chunks: bytes,
    method: str = "POST",
    path: str = "/",
    keys: Sequence[Key] = (),
    hosts: Sequence[str] = (),
    **headers: object,
):
    """The answer of the edge around `app`, and how many chunks of the body it took."""
    pairs = [(name.replace("_", "-").encode(), str(value).encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs}
    sent: list = []
    waiting = list(chunks or [b""])

    async def receive():
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message) -> None:
        sent.append(message)

    edge = OuterMiddleware(app, body_limits=BodyLimits(100, 100, 10), keys=keys, hosts=hosts)
    asyncio.run(edge(scope, receive, send))
    start, *rest = sent
    marks = {name.decode(): value.decode() for name, value in start["headers"]}
    text = b"".join(message["body"] for message in rest).decode()
    return SimpleNamespace(status=start["status"], headers=marks, text=text, taken=max(1, len(chunks)) - len(waiting))


@pytest.mark.parametrize(
    ("chunks", "sent", "taken"),
    [
        ([*[b"x" * 10] * 10, b"y", *[b"z" * 10] * 50], {}, 11),
        ([b"x" * 10], {"content_length": 12_345}, 0),
        *(([b"x" * 60, b"x" * 60], {"content_length": lie}, 2) for lie in (1, "none", "-7", "\u00b2")),
    ],
)
def test_one_byte_more_is_refused_as_soon_as_it_is_known_and_the_rest_is_not_taken(chunks, sent, taken):
    answer = ask(count, *chunks, **sent)
    assert (answer.status, answer.taken) == (413, taken)
    assert "at most 100 bytes" in answer.text


@pytest.mark.parametrize("id", ["order-7", "A.b:c_d-9", "x" * 128, "", "a b", "x" * 129, "a\nb", "<script>", "ä"])
def test_a_well_formed_request_id_is_the_callers_and_any_other_is_replaced_each_time(id):
    first, second = (ask(count, x_request_id=id) for _ in range(2))
    assert first.headers["x-request-id"] == first.text.split()[1]
    ids = {id, first.headers["x-request-id"], second.headers["x-request-id"]}
    assert len(ids) == (1 if re.fullmatch(r"[A-Za-z0-9.:_-]{1,128}", id) else 3)


def test_a_write_from_another_site_never_reaches_the_application_and_a_look_does():
    reached = []

    async def note(scope: Scope, receive: Receive, send: Send) -> None:
        reached.append(scope["method"])
        await Response()(scope, receive, send)

    for method in ("POST", "DELETE", "GET", "HEAD"):
        answer = ask(note, method=method, sec_fetch_site="cross-site")
        assert answer.status == (200 if method in ("GET", "HEAD") else 403)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert ask(note, sec_fetch_site="same-origin").status == 200
    assert reached == ["GET", "GET", "POST"], "HEAD is answered as GET is"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("of-alice", "200 in .* ms, request mine, key alice"),
        ("wrong", "401 in .* ms, request mine, error unauthorized"),
    ],
)
def test_a_line_of_the_log_has_the_request_and_who_asked_in_plain_text_too(caplog, sent, said):
    secret, key = new_key("alice", "read")
    with caplog.at_level("INFO", "diptych.access"):
        ask(count, keys=[key], x_api_key=secret if sent == "of-alice" else sent, x_request_id="mine")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "diptych.access"]
    assert re.fullmatch(f"POST / {said}", line)
    assert secret not in line


@pytest.mark.parametrize(("path", "lines"), [("/page/app.js", 0), ("/page/none.js", 1), ("/healthz", 0), ("/", 1)])
def test_the_files_of_the_page_are_no_lines_of_the_log_unless_one_is_missing(reader, caplog, path, lines):
    with caplog.at_level("INFO", "diptych.access"):
        reader.get(path)
    assert len([record for record in caplog.records if record.name == "diptych.access"]) == lines


def test_what_nobody_caught_is_in_the_log_under_the_id_of_the_answer_and_only_there(caplog):
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    answer = ask(fail, x_request_id="order-7")
    error = json.loads(answer.text)["error"]
    assert (answer.status, error["code"], error["request_id"]) == (500, "internal_error", "order-7")
    assert "secret" not in answer.text
    assert "request order-7 failed" in caplog.text
    assert "the secret of the house" in caplog.text


def test_an_answer_that_has_begun_is_not_followed_by_a_second_one():
    async def break_off(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError("halfway")

    with pytest.raises(ZeroDivisionError, match="halfway"):
        ask(break_off)


@pytest.mark.parametrize(
    ("path", "settings", "expected"),
    [
        ("/info", {}, 403),
        ("/healthz", {}, 200),
        ("/info", {"hosts": ["rebound.example"]}, 200),
        ("/info", {"keys": [KEY]}, 200),
    ],
)
def test_without_keys_a_name_that_is_not_ours_is_refused_and_with_them_or_for_health_it_does_not_matter(
    path, settings, expected
):
    answer = ask(count, path=path, host="rebound.example:8000", x_api_key=SECRET, **settings)
    assert (answer.status, answer.headers.get("x-error-code")) == (
        expected,
        None if expected == 200 else "unknown_host",
    )


@pytest.mark.parametrize(
    ("sent", "foreign"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),  # another port of this machine, another name of this domain
        ({"sec-fetch-site": "same-origin", "origin": "http://other.example"}, False),  # a proxy renamed the host
        ({"origin": "http://pictures.example:8000"}, False),
        ({"origin": "http://PICTURES.example:8000"}, False),
        ({"origin": "http://pictures.example"}, True),  # another service of this machine
        ({"origin": "http://pictures.example:3000"}, True),
        ({"origin": "http://pictures.example:port"}, True),
        ({"origin": "http://pictures.example", "x-forwarded-host": "pictures.example"}, False),
        ({"origin": "https://photos.lan", "x-forwarded-host": "photos.lan:443"}, False),
        ({"origin": "https://photos.lan:8443", "x-forwarded-host": "photos.lan"}, True),
        ({"origin": "http://photos.lan", "x-forwarded-host": "photos.lan"}, False),
        ({"origin": "http://photos.lan", "x-forwarded-host": "other.lan"}, True),
        ({"origin": "http://ours.example"}, False),
        ({"origin": "http://ours.example:3000"}, False),
        ({"origin": "https://ours.example", "sec-fetch-site": "same-site"}, False),
        ({"origin": "http://pictures.example:8000", "sec-fetch-site": "same-site"}, True),
        ({"origin": "http://ours.example.evil.org", "sec-fetch-site": "cross-site"}, True),
        ({"origin": "http://evil.example:8000"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://[bad"}, True),
        ({"origin": ""}, True),
    ],
)
def test_a_change_comes_from_the_services_own_page_or_from_no_page(sent, foreign):
    headers = Headers({"host": "pictures.example:8000", **sent})
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert is_foreign_page(method, headers, ("ours.example",)) is foreign
    for look in ("GET", "HEAD", "OPTIONS"):
        assert not is_foreign_page(look, headers, ())


OURS = ["localhost", "localhost:8000", "127.0.0.1:8000", "10.1.2.3", "[::1]:8000", "[::ffff:10.0.0.1]", ""]
OURS += ["diptych:8000", "pictures.localhost", "OURS.example:443", "ours.example.", socket.gethostname()]
THEIRS = ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "ours.example.evil.org"]


@pytest.mark.parametrize("host", [*OURS, *THEIRS])
def test_names_that_nobody_else_can_own_are_ours_and_any_other_is_foreign(host):
    assert is_foreign_name(Headers({"host": host} if host else {}), ("ours.example",)) is (host in THEIRS)
