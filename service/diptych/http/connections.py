"""Connections: how long one may wait with a request's head or with reading an answer, and how many there may be."""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0  # seconds from its first moment in which a request's head has to be there
UNREAD = 60.0  # seconds for which an answer may wait for its reader
MOST = 4096  # connections at once, each of which takes some 20 KiB
EACH = 16  # descriptors of a collection: of its database and log, for some who read it at once
_DESCRIPTORS = 2**16  # wanted of the system

logger = logging.getLogger(__name__)


class Connections:
    """The connections of a server, at most `most`: `uvicorn.Config(app, http=Connections(most).make_connection)`.

    One more takes the place of that which has waited longest for a request, whatever was sent on it, and is itself
    closed where all others have one that is being answered. `head` and `unread` are seconds, as above.
    """

    def __init__(self, most: int, *, head: float = HEAD, unread: float = UNREAD) -> None:
        self.most, self.head, self.unread = most, head, unread
        self.ending = False  # the server ends: a connection that is made from now on is closed at once
        self._waiting: dict[Connection, asyncio.TimerHandle] = {}  # for a request's head, the first for longest

    def make_connection(self, **server: Any) -> Connection:
        """Make the protocol of a new connection."""
        return Connection(self, **server)

    def start_waiting(self, connection: Connection) -> None:
        """Note that a connection waits for a request's head, if it did not before."""
        if connection not in self._waiting:
            self._waiting[connection] = connection.loop.call_later(self.head, connection.end_at_once)

    def end_waiting(self, connection: Connection) -> None:
        """Note that a connection does not wait any more."""
        if timer := self._waiting.pop(connection, None):
            timer.cancel()

    def end_longest(self) -> None:
        """End the connection that has waited longest."""
        next(iter(self._waiting)).end_at_once()


class Connection(H11Protocol):
    """One connection, as uvicorn serves it, with its deadlines."""

    def __init__(self, all: Connections, **server: Any) -> None:
        super().__init__(**server)
        self._all = all
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, in the place of another where there are too many, or end it with the server."""
        super().connection_made(transport)
        if self._all.ending:
            # Uvicorn closes those that it knows when it ends, and would wait for one that is made in this moment.
            self.end_at_once()
            return
        self._all.start_waiting(self)
        if len(self.connections) > self._all.most:
            self._all.end_longest()

    def data_received(self, data: bytes) -> None:
        """Take received data; an incomplete head gets no more time by it."""
        super().data_received(data)
        self._note_waiting()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._note_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the state of the connection."""
        self._all.end_waiting(self)
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Set a time limit, since the client does not read its response."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self._all.unread, self.end_at_once)

    def resume_writing(self) -> None:
        """The caller reads again."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or end the connection if an answer to it has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.end_at_once()

    def end_at_once(self) -> None:
        """Close it at once, whatever was sent."""
        self._all.end_waiting(self)
        self.connections.discard(self)
        self.transport.abort()

    def _note_waiting(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._all.end_waiting(self)
        elif not self.transport.is_closing():
            self._all.start_waiting(self)


def log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a failure of the event loop (`loop.set_exception_handler`): a connection that cannot be accepted, for want of
    descriptors or memory, in one line. The loop tries again as often as there are connections.
    """
    if "._start_serving(" in context["message"]:  # it was about to try again when the server ended
        return
    if "socket.accept()" not in context["message"]:
        loop.default_exception_handler(context)
        return
    logger.error("a connection could not be accepted: %s", context.get("exception"))


def limit_open_collections(wanted: int) -> int:
    """Limit how many collections are open at once: as wanted, if a quarter of the descriptors suffice."""
    return max(1, min(wanted, _raise_descriptors() // 4 // EACH))


def limit_connections() -> int:
    """Limit how many connections this process has: half of the descriptors, the rest is for all else."""
    return max(1, min(MOST, _raise_descriptors() // 2))


def _raise_descriptors() -> int:
    """Raise the limit of descriptors of this process as far as it may be, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return most
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (ValueError, OSError):  # as some systems answer that call no limit what is one
        return soft
    return most
