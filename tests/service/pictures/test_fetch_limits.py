import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from answering import PUBLIC, Answer, moved, remote_to, whole

from diptych.errors import RemoteError, RemoteTimeoutError, RemoteTooLargeError
from diptych.pictures.fetch import Fetcher, FetchLimits


def fetching_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "diptych-remote"]


def assert_threads_end() -> None:
    for thread in fetching_threads():
        thread.join(5)
    assert fetching_threads() == []


def endless(head: bytes, line: socket.socket) -> None:
    line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        line.sendall(bytes(65536))


def endless_chunks(head: bytes, line: socket.socket) -> None:
    line.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n")
    while True:
        line.sendall(b"10000\r\n" + bytes(65536) + b"\r\n")


def declared(head: bytes, line: socket.socket) -> None:
    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n")


@pytest.mark.parametrize("answer", [endless, endless_chunks, declared, whole(bytes(100_001))])
def test_more_bytes_than_allowed_are_refused_as_soon_as_that_is_known(serve, answer):
    server = serve(answer)
    reason = r"expected at most 100,000 bytes from 127\.0\.0\.1, got (1\d\d,\d{3}) or more"
    with remote_to(server, bytes=100_000) as fetching, pytest.raises(RemoteTooLargeError, match=reason) as caught:
        fetching.fetch(f"http://127.0.0.1:{server.port}/")
    assert caught.value.code == "remote_too_large"


@pytest.mark.parametrize(
    "answer",
    [
        whole(bytes(100_000)),
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(100_000),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186A0\r\n" + bytes(100_000) + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + bytes(300_000),
    ],
)
def test_exactly_the_allowed_bytes_are_taken_however_they_are_framed(serve, answer):
    server = serve(answer)
    with remote_to(server, bytes=100_000) as fetching:
        assert fetching.fetch(f"http://127.0.0.1:{server.port}/") == bytes(100_000)


def drip(text: bytes) -> Answer:
    """An answer that begins with a text and goes on byte by byte, for ever."""

    def answer(head: bytes, line: socket.socket) -> None:
        line.sendall(text)
        while True:
            time.sleep(0.05)
            line.sendall(b"a")

    return answer


def silent(head: bytes, line: socket.socket) -> None:
    line.recv(1)


@pytest.mark.parametrize(
    "answer",
    [
        drip(b"HTTP/1.1 200 OK\r\n\r\n"),
        drip(b"HTTP/1.1 200 OK\r\nX: "),
        drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"),
        silent,
    ],
)
def test_the_deadline_holds_against_a_server_that_trickles_or_says_nothing_and_no_thread_is_left(serve, answer):
    server = serve(answer)
    began = time.monotonic()
    reason = r"the picture was not there within 0\.4 s"
    with remote_to(server, seconds=0.4) as fetching, pytest.raises(RemoteTimeoutError, match=reason) as caught:
        fetching.fetch(f"http://127.0.0.1:{server.port}/")
    assert 0.3 < time.monotonic() - began < 3
    assert caught.value.code == "remote_timeout"
    assert_threads_end()


def test_the_deadline_is_for_all_hops_together(serve):
    def answer(head: bytes, line: socket.socket) -> None:
        time.sleep(0.25)
        line.sendall(moved("/again"))

    server = serve(answer)
    with remote_to(server, seconds=0.6, redirects=100) as fetching, pytest.raises(RemoteTimeoutError):
        fetching.fetch(f"http://127.0.0.1:{server.port}/")
    assert 1 < len(server.heads) <= 3
    assert_threads_end()


def test_the_deadline_holds_in_a_handshake_that_never_ends():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        began, limits = time.monotonic(), FetchLimits(private=True, seconds=0.3, ports=frozenset({port}))
        with pytest.raises(RemoteTimeoutError):
            Fetcher(limits).fetch(f"https://127.0.0.1:{port}/")
        assert time.monotonic() - began < 3
        assert_threads_end()


def test_the_deadline_holds_while_a_name_is_looked_up_and_nothing_is_asked_afterwards(serve):
    server, released = serve(whole()), threading.Event()

    def slow(host: str) -> list[str]:
        released.wait(10)
        return ["127.0.0.1"]

    limits = FetchLimits(private=True, seconds=0.2, ports=frozenset({server.port}))
    began = time.monotonic()
    with pytest.raises(RemoteTimeoutError):
        Fetcher(limits, resolve=slow).fetch(f"http://slow.example:{server.port}/")
    assert time.monotonic() - began < 3
    released.set()
    assert_threads_end()
    assert server.heads == []


def test_closing_ends_what_is_under_way_and_nothing_is_fetched_any_more(serve):
    server = serve(silent)
    with remote_to(server, seconds=30) as fetching, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(fetching.fetch, f"http://127.0.0.1:{server.port}/") for _ in range(2)]
        for _ in asked:
            assert server.arrived.acquire(timeout=5)
        fetching.close()
        for future in asked:
            with pytest.raises(RemoteError, match="not fetched any more: the service is closing"):
                future.result(2)
        with pytest.raises(RemoteError, match="no pictures are fetched any more"):
            fetching.fetch(f"http://127.0.0.1:{server.port}/")
    assert_threads_end()
    assert len(server.heads) == 2


def test_a_connection_that_comes_too_late_is_not_used(serve, routed, monkeypatch):
    routed[PUBLIC] = server = serve(whole())

    def late(*args: Any, **options: Any) -> socket.socket:
        time.sleep(0.5)
        return routed.create_connection(*args, **options)

    monkeypatch.setattr(socket, "create_connection", late)
    with pytest.raises(RemoteTimeoutError):
        Fetcher(FetchLimits(seconds=0.2), resolve=lambda host: [PUBLIC]).fetch("http://late.example/")
    assert_threads_end()
    assert routed.tried == [(PUBLIC, 80)]
    assert "GET" not in "".join(server.heads)
