"""The limits of request bodies: how large a body may be, how long it may take, and how much of all bodies is held at
once.
"""

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
        try:
            return await self._receive_next()
        except HTTPException:
            self.refused = True
            raise

    async def _receive_next(self) -> Message:
        limits = self._limits
        if self._end is None:
            self._end = time.monotonic() + limits.seconds
            if self._twofold:  # a proxy in front may go by the other one, and take the rest for another's request
                text = "The request has both Content-Length and Transfer-Encoding, which say different ends; send one."
                raise HTTPException(400, text)
            if self._expected > limits.each:
                raise self._too_large(f"{self._expected:,} bytes")
            if limits.held and limits.held + self._expected > limits.all:
                raise self._make_full_error()
        if self._whole:
            return await self._receive()
        with limits.limit_reading(self._end) as scope:
            message = await self._receive()
        if scope.cancelled_caught:
            raise self._make_ending_error() if limits.ending else self._too_slow()
        if message["type"] == "http.disconnect":
            raise HTTPException(
                400, f"The connection ended, or its body could not be read, after {self.taken:,} bytes."
            )
        size = len(message.get("body", b""))
        self.taken += size
        limits.held += size
        if self.taken > limits.each:
            raise self._too_large(f"more than {self.taken - 1:,} bytes")
        if limits.held > max(limits.all, self.taken):
            raise self._make_full_error()
        self._whole = not message.get("more_body", False)
        return message

    def _too_large(self, size: str) -> HTTPException:
        text = f"The body has {size}; at most {self._limits.each:,} are allowed. Send fewer or smaller pictures."
        return HTTPException(413, text)

    def _too_slow(self) -> HTTPException:
        text = (
            f"Of the body {self.taken:,} bytes came in {self._limits.seconds:g} s, which is as long as it may take; "
            "send fewer or smaller pictures at once, or over a faster line."
        )
        return HTTPException(408, text)

    def _make_full_error(self) -> HTTPException:
        text = (
            f"Requests that are being answered hold {self._limits.held:,} of {self._limits.all:,} bytes; "
            "try again in 1 s."
        )
        return HTTPException(429, text, {"Retry-After": "1"})

    def _make_ending_error(self) -> HTTPException:
        return HTTPException(503, f"The service ends; {self.taken:,} bytes of the body had come. Ask another one.")
