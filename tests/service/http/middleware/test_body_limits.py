"""What arrives is bounded: in one request, in its time, and in all together."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager, suppress

import pytest
from refusals import check_refusal
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from diptych.http.middleware.auth import new_key
from diptych.http.middleware.body_limits import BodyLimits
from diptych.http.settings import Settings

HEAD = b"POST /v1/score HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"


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


async def refused(work: Awaitable[int], status: int) -> HTTPException:
    with pytest.raises(HTTPException) as caught:
        await work
    assert caught.value.status_code == status
    return caught.value


def headers(size: int | None = None) -> Headers:
    return Headers({} if size is None else {"content-length": str(size)})


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_what_does_not_fit_beside_the_others_is_429_as_soon_as_it_is_announced_and_one_alone_always_fits():
    async def ask() -> None:
        body_limits, alone = BodyLimits(100, 150, 10), BodyLimits(100, 10, 10)
        with body_limits.limit_body(headers(), sender(b"x" * 100)) as first:
            await take(first, 1)
            with body_limits.limit_body(headers(51), sender(b"x" * 51)) as second:
                assert "hold 100 of 150 bytes" in (await refused(take(second, 1), 429)).detail
            with body_limits.limit_body(headers(50), sender(b"x" * 50)) as third:
                assert await take(third, 1) == 50
        assert body_limits.held == 0
        with alone.limit_body(headers(100), sender(b"x" * 60, b"x" * 40)) as first:
            assert await take(first, 2) == 100

    run(ask)


def test_a_promise_takes_no_room():
    body_limits = BodyLimits(100, 100, 10)

    async def ask() -> None:
        with body_limits.limit_body(headers(100), sender(b"x", pause=0.2)) as silent:
            waiting = asyncio.create_task(take(silent, 1))
            await asyncio.sleep(0.05)
            with body_limits.limit_body(headers(100), sender(b"x" * 100)) as other:
                assert await take(other, 1) == 100
            await waiting

    run(ask)


def test_what_comes_after_a_body_may_take_its_time():
    async def ask() -> None:
        with BodyLimits(1000, 1000, 0.1).limit_body(headers(), sender(b"x")) as receive:
            await take(receive, 1)
            await asyncio.sleep(0.2)
            assert (await receive())["type"] == "http.disconnect"

    run(ask)


@contextmanager
def connection(client):
    """A bare connection to the service, which a client that misbehaves has."""
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=20) as line:
        yield line


def read_all(line: socket.socket) -> bytes:
    answer = b""
    while more := line.recv(65536):
        answer += more
    return answer


def test_a_service_ends_a_slow_body_and_refuses_what_would_not_fit_while_others_are_held(serve):
    settings = Settings(body_bytes=100_000, bodies_bytes=150_000, body_seconds=3)
    ask = {"content": b" " * 70_000, "headers": {"content-type": "application/json"}}
    with serve(settings) as client, connection(client) as slow:
        began = time.monotonic()
        slow.sendall(HEAD + b"Content-Length: 100000\r\n\r\n[" + b" " * 90_000)
        while "diptych_body_bytes 90001.0" not in client.get("/metrics").text:
            assert time.monotonic() - began < 3, "it was not held"
            time.sleep(0.02)
        refusal = client.post("/v1/score", **ask)
        assert (refusal.status_code, refusal.headers["retry-after"]) == (429, "1")
        assert refusal.json()["error"]["code"] == "overloaded"
        check_refusal(client.post("/v1/search", files={"image": bytes(100_000)}), 413, "body_too_large")
        answer = read_all(slow)
        assert 3 <= time.monotonic() - began < 10
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"body_too_slow"' in answer
        assert client.post("/v1/score", **ask).status_code == 400, "it is read, and no JSON"
        assert "diptych_body_bytes 0.0" in client.get("/metrics").text


def test_after_a_refusal_for_want_of_a_key_the_body_is_not_read(serve):
    _, key = new_key("alice", "read")
    with serve(Settings(keys=(key,))) as client, connection(client) as line:
        line.sendall(HEAD + b"Content-Length: 50000000\r\n\r\n[")
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
    ("head", "body"), [(b"Content-Length: 14", b'{"na'), (b"Transfer-Encoding: chunked", b'4\r\n{"na\r\nzz\r\n')]
)
def test_a_body_that_breaks_off_is_a_fault_of_the_request_and_no_trace_in_the_log(serve, caplog, head, body):
    with serve() as client, connection(client) as line:
        line.sendall(HEAD + head + b"\r\n\r\n" + body)
        line.shutdown(socket.SHUT_WR)
        read_all(line)
        assert 'status="500"' not in client.get("/metrics").text
    assert not [record for record in caplog.records if record.exc_info]


def test_a_request_that_says_two_ends_of_its_body_is_refused_and_nothing_after_it_is_read(serve):
    with serve() as client, connection(client) as line:
        line.sendall(HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        answer = read_all(line)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
