"""Web servers for tests: they answer anything, also what no server should, and are led to under any address."""

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from diptych.pictures.fetch import Fetcher, FetchLimits

PUBLIC, PUBLIC6 = "93.184.216.34", "2606:4700:4700::1111"
PICTURE = bytes(range(256)) * 11

Answer = Callable[[bytes, socket.socket], None]


class Server(socketserver.ThreadingTCPServer):
    """Answers every request by a function of its head and its connection, and remembers the heads."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answer, host: str = "127.0.0.1", *, tls: ssl.SSLContext | None = None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answer, self.tls = answer, tls
        self.heads: list[str] = []
        self.arrived = threading.Semaphore(0)
        super().__init__((host, 0), socketserver.BaseRequestHandler)

    @property
    def port(self) -> int:
        return self.server_address[1]

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            line = self.tls.wrap_socket(request, server_side=True) if self.tls else request
            with line:
                head = b""
                while not head.endswith(b"\r\n\r\n") and (more := line.recv(65536)):
                    head += more
                self.heads.append(head.decode("ascii"))
                self.arrived.release()
                self.answer(head, line)
        except OSError:  # who asked has gone: often what a test is about
            pass


class Routes(dict[str, Server]):
    """To which server connections to an address are led, and all that were `tried`; others are refused."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[tuple[str, int]] = []
        self._connect = socket.create_connection

    def create_connection(self, address: tuple[str, int], *args: Any, **options: Any) -> socket.socket:
        """In place of that of `socket`."""
        self.tried.append(address)
        if address[0] not in self:
            raise ConnectionRefusedError(111, "Connection refused")
        return self._connect(("127.0.0.1", self[address[0]].port), *args, **options)


@contextmanager
def remote_to(
    *servers: Server, names: dict[str, list[str]] | None = None, tls: ssl.SSLContext | None = None, **limits: Any
) -> Iterator[Fetcher]:
    """A Remote that may ask these servers, with a resolver that knows only these names."""
    options = {"private": True, "seconds": 5.0, "ports": frozenset(server.port for server in servers)} | limits
    fetching = Fetcher(FetchLimits(**options), resolve=lambda host: (names or {})[host], tls=tls)
    yield fetching
    fetching.close()


def whole(body: bytes = PICTURE, status: str = "200 OK", *headers: str) -> bytes:
    """An answer as it goes over the line."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def moved(to: str, status: str = "302 Found") -> bytes:
    return whole(b"elsewhere", status, f"Location: {to}")


def target(head: bytes) -> str:
    return head.split()[1].decode()
