"""Connections that say nothing, half of something or read nothing take nobody's place."""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from urllib.request import urlopen

import pytest
import uvicorn
from started import free_port, until_ready
from waiting import until

from diptych.http.connections import MOST, Connections, limit_connections, limit_open_collections

R = TypeVar("R")

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"
LARGE = 64 * 2**20
INFINITE = resource.RLIM_INFINITY


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers what was asked for: /large with so much that no buffer takes it, /slow after half a second."""
    if scope["type"] == "lifespan":
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    body = bytes(LARGE if scope["path"] == "/large" else 3)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    for start in range(0, len(body), 2**16):
        await send({"type": "http.response.body", "body": body[start : start + 2**16], "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def served(most: int | Connections, work: Callable[[int], R], **seconds: float) -> R:
    """Run `work(port)` in a thread beside a server with these limits."""
    connections = Connections(most, **seconds) if isinstance(most, int) else most

    async def run() -> R:
        accept: Any = connections.make_connection
        server = uvicorn.Server(uvicorn.Config(app, http=accept, port=0, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            return await asyncio.to_thread(work, server.servers[0].sockets[0].getsockname()[1])
        finally:
            server.should_exit = True
            await serving

    return asyncio.run(run())


@contextmanager
def connected(port: int, count: int = 1) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(count)]


def until_closed(line: socket.socket, drip: bytes = b"", most: float = 10) -> float:
    """Seconds until the server closes a connection, on which a byte is sent every now and then, or `most` of them."""
    began = time.monotonic()
    line.settimeout(0.05)
    while time.monotonic() < began + most:
        try:
            if drip:
                line.send(drip)
            if not line.recv(65536):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began


def test_a_head_that_does_not_come_in_time_ends_the_connection_however_it_drips():
    cases = [(b"", b""), (b"G", b""), (HEAD, b""), (HEAD, b"x"), (HEAD + b"\r\n" + HEAD, b"x")]

    def work(port: int) -> list[float]:
        with connected(port, len(cases)) as lines, ThreadPoolExecutor(len(cases)) as pool:
            for line, (sent, _) in zip(lines, cases, strict=True):
                line.sendall(sent)
            return list(pool.map(until_closed, lines, [drip for _, drip in cases]))

    assert all(0.4 < waited < 3 for waited in served(10, work, head=0.6))


def send_request(line: socket.socket, path: bytes) -> socket.socket:
    """The connection, once a request is on it."""
    line.sendall(HEAD.replace(b"/ ", path + b" ") + b"\r\n")
    return line


def test_what_is_being_answered_has_no_deadline_for_its_head():
    def work(port: int) -> bytes:
        with connected(port) as (line,):
            return send_request(line, b"/slow").recv(100)

    assert served(10, work, head=0.2).startswith(b"HTTP/1.1 200")


def test_an_answer_that_nobody_reads_ends_the_connection_and_one_that_is_read_slowly_does_not():
    def work(port: int) -> tuple[float, int]:
        with connected(port, 2) as (silent, slow):
            for line in (silent, slow):
                line.sendall(HEAD.replace(b"/ ", b"/large ") + b"Connection: close\r\n\r\n")
            got = 0
            for _ in range(20):
                got += len(slow.recv(2**20))
                time.sleep(0.1)
            while data := slow.recv(2**20):
                got += len(data)
            return until_closed(silent), got

    waited, got = served(10, work, unread=1.0)
    assert waited < 2
    assert got > LARGE


def test_one_more_connection_takes_the_place_of_that_which_has_waited_longest():
    def work(port: int) -> list[bool]:
        with connected(port, 5) as silent:
            silent[0].sendall(HEAD)
            with connected(port, 2) as (one, other):
                for line in (one, other):
                    assert send_request(line, b"/").recv(100).startswith(b"HTTP/1.1 200")
                return [until_closed(line) < 1 for line in silent[:2]] + [until_closed(silent[2], most=1) < 0.3]

    assert served(5, work) == [True, True, False]


def test_one_more_is_closed_where_all_others_are_being_answered():
    def work(port: int) -> tuple[float, list[bytes]]:
        with connected(port, 2) as busy:
            for line in busy:
                send_request(line, b"/slow")
            time.sleep(0.1)
            with connected(port) as (more,):
                return until_closed(more), [line.recv(100) for line in busy]

    waited, answers = served(2, work)
    assert waited < 0.4
    assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)


def test_a_connection_that_is_made_while_the_server_ends_is_closed_at_once_and_not_waited_for():
    connections = Connections(10)

    def work(port: int) -> tuple[float, float]:
        with connected(port) as (before,):
            assert send_request(before, b"/").recv(100).startswith(b"HTTP/1.1 200")
            connections.ending = True
            with connected(port) as (late,):
                return until_closed(late), until_closed(before, most=0.2)

    waited, kept = served(connections, work)
    assert waited < 1
    assert kept >= 0.2, "uvicorn itself closes those that it knows"


@pytest.fixture
def limit(monkeypatch) -> SimpleNamespace:
    """The limit of descriptors, soft and hard, that the process sees."""
    limit = SimpleNamespace(now=(0, 0))
    monkeypatch.setattr(resource, "getrlimit", lambda _: limit.now)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: setattr(limit, "now", wanted))
    return limit


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "collections"),
    [
        (64, 64, 32, 1),
        (1024, 1024, 512, 16),
        (1024, 2**20, MOST, 128),
        (1024, INFINITE, MOST, 128),
        (INFINITE, INFINITE, MOST, 128),
    ],
)
def test_as_many_connections_and_collections_are_open_as_there_are_descriptors_for(
    soft, hard, connections, collections, limit
):
    limit.now = (soft, hard)
    assert (limit_connections(), limit_open_collections(128)) == (connections, collections)
    assert limit.now[0] == INFINITE or limit.now[0] >= 2 * connections
    assert limit.now[1] == hard


@contextmanager
def serving(artifact: Path, log: Path) -> Iterator[tuple[int, int]]:
    """`diptych serve` with a hard limit of 1024 descriptors: its port and its process id."""
    port = free_port()
    words = ["serve", "--port", port, "--model", artifact, "--threads", 1]
    command = [sys.executable, "-m", "diptych", *map(str, words)]
    limited = ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh", *command]
    with log.open("w") as file, subprocess.Popen(limited, stderr=file, text=True) as process:
        try:
            until_ready(f"http://127.0.0.1:{port}", process)
            yield port, process.pid
        finally:
            process.terminate()


def healthy(port: int) -> bool:
    with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
        return answer.status == 200


def test_a_thousand_connections_that_say_nothing_or_half_of_it_silence_nobody_nor_does_want_of_descriptors(
    artifact, tmp_path
):
    with serving(artifact, tmp_path / "log") as (port, pid), ExitStack() as stack:
        for number in range(1100):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            if number % 2:
                line.sendall(HEAD)
            if number % 100 == 99:
                assert healthy(port)
        for _ in range(20):
            assert healthy(port)
        stack.close()
        assert (tmp_path / "log").stat().st_size < 10_000
        # All descriptors are taken: it says so once a second, and answers once there are some.
        until(lambda: healthy(port) and len(list(Path(f"/proc/{pid}/fd").iterdir())) < 100)
        taken = max(int(one.name) for one in Path(f"/proc/{pid}/fd").iterdir()) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken, 1024))
        with connected(port, 20):
            time.sleep(3)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, 1024))
            assert healthy(port)
    said = (tmp_path / "log").read_text()
    assert 1 <= said.count("could not be accepted: [Errno 24] Too many open files") <= 6
    assert len(said) < 10_000
