"""What arrives is bounded: in one request, in its time, and in all together."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import contextmanager, suppress

import pytest
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from diptych.http.middleware.auth import new_key
from diptych.http.middleware.body_limits import BodyLimits
from diptych.http.settings import Settings


def sender(*chunks: bytes, pause: float = 0.0):
    """An ASGI `receive` with these chunks as its body, each after a pause; after them the caller is gone."""
    left = list(chunks)

    async def receive():
        if not left:
            return {"type": "http.disconnect"}
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive


async def take(receive, messages: int) -> int:
    """Bytes that came in so many messages."""
    return sum([len((await receive()).get("body", b"")) for _ in range(messages)])


def headers(size: int | None = None) -> Headers:
    return Headers({} if size is None else {"content-length": str(size)})


def test_bytes_are_held_until_the_request_is_answered_however_it_ends():
    body_limits = BodyLimits(100, 1000, 10)

    async def ask() -> None:
        with body_limits.limit_body(headers(), sender(b"x" * 60, b"x" * 40)) as receive:
            assert await take(receive, 1) == body_limits.held == 60
            assert await take(receive, 1) == 40
            assert body_limits.held == 100
        assert body_limits.held == 0
        with suppress(ZeroDivisionError), body_limits.limit_body(headers(), sender(b"x" * 60)) as receive:
            assert await take(receive, 1) == body_limits.held
            raise ZeroDivisionError
        assert body_limits.held == 0
        with body_limits.limit_body(headers(), sender(b"x" * 101)) as receive:
            with pytest.raises(HTTPException) as refused:
                await take(receive, 1)
            assert refused.value.status_code == 413

    asyncio.run(ask())
    assert body_limits.held == 0


def test_what_does_not_fit_beside_the_others_is_429_announced_or_not_and_fits_once_they_are_answered():
    body_limits = BodyLimits(100, 150, 10)

    async def ask() -> None:
        with body_limits.limit_body(headers(), sender(b"x" * 100)) as first:
            await take(first, 1)
            for announced, taken in ((51, 0), (None, 51)):
                with body_limits.limit_body(headers(announced), sender(b"x" * 51)) as second:
                    with pytest.raises(HTTPException) as refused:
                        await take(second, 1)
                    assert refused.value.status_code == 429
                    assert refused.value.headers == {"Retry-After": "1"}
                    assert f"hold {100 + taken} of 150 bytes" in refused.value.detail
                assert body_limits.held == 100
            with body_limits.limit_body(headers(50), sender(b"x" * 50)) as third:
                assert await take(third, 1) == 50
        with body_limits.limit_body(headers(51), sender(b"x" * 51)) as again:
            assert await take(again, 1) == 51
        alone = BodyLimits(100, 10, 10)  # one finds room however little there is for all
        with alone.limit_body(headers(100), sender(b"x" * 60, b"x" * 40)) as first:
            assert await take(first, 2) == 100
            with (
                alone.limit_body(headers(), sender(b"x")) as second,
                pytest.raises(HTTPException, match="hold 100 of 10"),
            ):
                await take(second, 1)

    asyncio.run(ask())


def test_a_promise_takes_no_room():
    body_limits = BodyLimits(100, 100, 10)

    async def ask() -> None:
        with body_limits.limit_body(headers(100), sender(b"x", pause=0.2)) as silent:
            waiting = asyncio.create_task(take(silent, 1))
            await asyncio.sleep(0.05)
            with body_limits.limit_body(headers(100), sender(b"x" * 100)) as other:
                assert await take(other, 1) == 100
            await waiting

    asyncio.run(ask())


def test_a_body_that_drips_is_408_at_its_end_and_what_comes_after_a_body_may_take_its_time():
    body_limits = BodyLimits(1000, 1000, 0.2)

    async def ask() -> None:
        began = time.monotonic()
        with body_limits.limit_body(headers(), sender(*[b"x"] * 100, pause=0.03)) as receive:
            with pytest.raises(HTTPException) as refused:
                await take(receive, 100)
            assert refused.value.status_code == 408
        assert 0.2 <= time.monotonic() - began < 1
        with body_limits.limit_body(headers(), sender(b"x")) as receive:
            await take(receive, 1)
            await asyncio.sleep(0.3)
            assert (await receive())["type"] == "http.disconnect"

    asyncio.run(ask())


@contextmanager
def connection(client):
    """A bare connection to the service, which a client that misbehaves has."""
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as line:
        yield line


def begin(line: socket.socket, size: int, data: bytes) -> None:
    head = f"POST /v1/score HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    line.sendall(head.encode() + data)


def test_a_service_ends_a_slow_body_and_refuses_what_would_not_fit_while_others_are_held(serve):
    settings = Settings(body_bytes=100_000, bodies_bytes=150_000, body_seconds=3)
    with serve(settings) as client, connection(client) as slow:
        began = time.monotonic()
        begin(slow, 100_000, b"[" + b" " * 90_000)
        while "diptych_body_bytes 90001.0" not in client.get("/metrics").text:
            assert time.monotonic() - began < 3, "it was not held"
            time.sleep(0.02)
        refused = client.post("/v1/score", content=b" " * 70_000, headers={"content-type": "application/json"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["code"] == "overloaded"
        assert client.get("/readyz").status_code == 200
        answer = b""
        while data := slow.recv(65536):
            answer += data
        assert 3 <= time.monotonic() - began < 10
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"body_too_slow"' in answer
        allowed = client.post("/v1/score", content=b" " * 70_000, headers={"content-type": "application/json"})
        assert allowed.status_code == 400, "which is what it is for"
        assert "diptych_body_bytes 0.0" in client.get("/metrics").text


def test_at_the_end_of_all_no_body_is_read_any_more_but_what_has_come():
    body_limits = BodyLimits(1000, 1000, 10)

    async def ask() -> None:
        come, more = [{"type": "http.request", "body": b"x" * 60, "more_body": True}], asyncio.Event()

        async def halting():
            if come:
                return come.pop()
            more.set()
            return await asyncio.sleep(60, {"type": "http.request", "body": b"x" * 40, "more_body": False})

        with body_limits.limit_body(headers(100), halting) as slow:
            reading = asyncio.create_task(take(slow, 2))
            await more.wait()
            began = time.monotonic()
            body_limits.end_reading()
            with pytest.raises(HTTPException, match="60 bytes of the body had come") as refused:
                await reading
            assert refused.value.status_code == 503
            assert time.monotonic() - began < 5
            assert slow.has_more
        come.append({"type": "http.request", "body": b"x", "more_body": False})

        async def whole():
            return come.pop()

        with body_limits.limit_body(headers(1), whole) as receive:
            assert await take(receive, 1) == 1
            assert not receive.has_more

    asyncio.run(ask())


def test_after_a_refusal_for_want_of_a_key_the_body_is_not_read(serve):
    _, key = new_key("alice", "read")
    with serve(Settings(keys=(key,))) as client, connection(client) as line:
        begin(line, 50_000_000, b"[")
        answer = line.recv(65536)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"\r\nconnection: close\r\n" in answer.lower()
        sent = 0
        with suppress(OSError):
            while sent < 50_000_000:
                sent += line.send(b" " * 65536)
        assert sent < 20_000_000, "which is what the buffers on the way take"
        with connection(client) as other:
            other.sendall(b"GET /v1/models HTTP/1.1\r\nHost: here\r\n\r\n")
            assert b"connection: close" not in other.recv(65536).lower(), "nothing is left of a body that is none"


@pytest.mark.parametrize(
    ("head", "body"), [("Content-Length: 14", b'{"na'), ("Transfer-Encoding: chunked", b'4\r\n{"na\r\nzz\r\n')]
)
def test_a_body_that_breaks_off_is_a_fault_of_the_request_and_no_trace_in_the_log(serve, caplog, head, body):
    with serve() as client, connection(client) as line:
        line.sendall(
            f"POST /v1/score HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n{head}\r\n\r\n".encode()
        )
        line.sendall(body)
        line.shutdown(socket.SHUT_WR)
        while line.recv(65536):
            pass
        counted = client.get("/metrics").text
    assert 'status="500"' not in counted
    assert not [record for record in caplog.records if record.exc_info]


def test_a_request_that_says_two_ends_of_its_body_is_refused_and_nothing_after_it_is_read(serve):
    with serve() as client, connection(client) as line:
        line.sendall(
            b"POST /v1/score HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: here\r\n\r\n"
        )
        answer = b""
        while more := line.recv(65536):
            answer += more
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (answer.count(b"HTTP/1.1 "), b"which say different ends; send one" in answer) == (1, True)
