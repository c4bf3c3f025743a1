"""The limits of request bodies: how large one may be, how long it may take, and how much of all is held at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive


class BodyLimits:
    """Bounds for the bodies of requests: `each` of them in bytes and in `seconds`, and the bytes of `all` together.

    Bytes count when they come, not when they are announced, so that nobody takes room by a promise; and until their
    request is answered. A body that is alone always finds room.
    """

    def __init__(self, each: int, all: int, seconds: float) -> None:
        self.each, self.all, self.seconds = each, all, seconds
        self.held, self.ending = 0, False
        self._reading = set[anyio.CancelScope]()

    @contextmanager
    def limit_reading(self, end: float) -> Iterator[anyio.CancelScope]:
        """Limit the reading inside to this monotonic time, and to `end_reading`; gives the scope."""
        with anyio.move_on_after(0 if self.ending else max(0.0, end - time.monotonic())) as scope:
            self._reading.add(scope)
            try:
                yield scope
            finally:
                self._reading.discard(scope)

    @contextmanager
    def limit_body(self, headers: Headers, receive: Receive) -> Iterator[Body]:
        """Limit the body of one request with these headers; gives its `receive`."""
        body = Body(self, headers, receive)
        try:
            yield body
        finally:
            self.held -= body.taken

    def end_reading(self) -> None:
        """Read no more of any body: the process ends, and who is slow would keep it from that."""
        self.ending = True
        for scope in self._reading:
            scope.cancel()


class Body:
    """The body of one request, as an ASGI `receive`.

    It raises HTTPException: 400 for one whose end is not to be known, 408, 413, 429 or, when the service ends, 503.
    """

    def __init__(self, limits: BodyLimits, headers: Headers, receive: Receive) -> None:
        announced = headers.get("content-length", "")
        self._limits, self._receive = limits, receive
        self._expected = int(announced) if announced.isdecimal() else 0
        self._end: float | None = None
        self._announced = self._expected > 0 or "transfer-encoding" in headers
        self._twofold = "transfer-encoding" in headers and "content-length" in headers
        self._whole = False
        self.refused = False  # one of the errors below was raised
        self.taken = 0

    @property
    def has_more(self) -> bool:
        """True if more of the body is to come, as far as is known."""
        return not self._whole and (self._announced or self.taken > 0)

    async def __call__(self) -> Message:
        """The next message."""
        limits = self._limits
        if self._end is None:
            self._end = time.monotonic() + limits.seconds
            if self._twofold:  # a proxy in front may go by the other one, and take the rest for another's request
                raise self._refuse(400, "The request has both Content-Length and Transfer-Encoding; send one.")
            self._check_size(self._expected, limits.held and limits.held + self._expected)
        if self._whole:
            return await self._receive()
        with limits.limit_reading(self._end) as scope:
            message = await self._receive()
        came = f"{self.taken:,} bytes of the body had come"
        if scope.cancelled_caught and limits.ending:
            raise self._refuse(503, f"The service ends; {came}. Ask another one.")
        if scope.cancelled_caught:
            raise self._refuse(408, f"Expected the body within {limits.seconds:g} s; {came}. Send less at once.")
        if message["type"] == "http.disconnect":
            raise self._refuse(400, f"The connection ended, or its body could not be read; {came}.")
        size = len(message.get("body", b""))
        self.taken += size
        limits.held += size
        self._check_size(self.taken, limits.held if limits.held > self.taken else 0)
        self._whole = not message.get("more_body", False)
        return message

    def _check_size(self, size: int, held: int) -> None:
        """Refuse a body of this size, and one that does not fit beside others: together they would hold so much."""
        limits = self._limits
        if size > limits.each:
            text = f"Expected a body of at most {limits.each:,} bytes, got {size:,} or more; send less at once."
            raise self._refuse(413, text)
        if held > limits.all:
            text = f"Requests that are being answered hold {limits.held:,} of {limits.all:,} bytes; try again in 1 s."
            raise self._refuse(429, text, {"Retry-After": "1"})

    def _refuse(self, status: int, text: str, headers: dict[str, str] | None = None) -> HTTPException:
        self.refused = True
        return HTTPException(status, text, headers)
