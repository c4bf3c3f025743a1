"""What arrives: how large a body may be, how long it may take, and how much of all bodies is held at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive


class Inlet:
    """Bounds for the bodies of requests: `each` of them in bytes and in `seconds`, and the bytes of `all` together.

    Bytes count when they come, not when they are announced, so that nobody takes room by a promise; and until their
    request is answered. A body that is alone always finds room.
    """

    def __init__(self, each: int, all: int, seconds: float) -> None:
        self.each, self.all, self.seconds = each, all, seconds
        self.held = 0

    @contextmanager
    def bounded(self, headers: Headers, receive: Receive) -> Iterator[Receive]:
        """A `receive` for one request with these headers; it raises HTTPException: 408, 413 or 429."""
        announced = headers.get("content-length", "")
        expected = int(announced) if announced.isdecimal() else 0
        end: float | None = None
        taken, whole = 0, False

        async def receive_bounded() -> Message:
            nonlocal end, taken, whole
            if whole:
                return await receive()
            if end is None:
                end = time.monotonic() + self.seconds
                if expected > self.each:
                    raise self._too_large(f"{expected:,} bytes")
                if self.held and self.held + expected > self.all:
                    raise self._full()
            try:
                with anyio.fail_after(end - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                raise self._too_slow(taken) from None
            size = len(message.get("body", b""))
            taken += size
            self.held += size
            if taken > self.each:
                raise self._too_large(f"more than {taken - 1:,} bytes")
            if self.held > max(self.all, taken):
                raise self._full()
            whole = not message.get("more_body", False)
            return message

        try:
            yield receive_bounded
        finally:
            self.held -= taken

    def _too_large(self, size: str) -> HTTPException:
        text = f"The body has {size}; at most {self.each:,} are allowed. Send fewer or smaller pictures."
        return _refusal(413, text)

    def _too_slow(self, taken: int) -> HTTPException:
        text = (
            f"Of the body {taken:,} bytes came in {self.seconds:g} s, which is as long as it may take; send fewer or "
            "smaller pictures at once, or over a faster line."
        )
        return _refusal(408, text)

    def _full(self) -> HTTPException:
        text = f"Requests that are being answered hold {self.held:,} of {self.all:,} bytes; try again in 1 s."
        return _refusal(429, text, {"Retry-After": "1"})


def _refusal(status: int, text: str, headers: dict[str, str] | None = None) -> HTTPException:
    # What is left of the body is not read, so the connection is of no more use.
    return HTTPException(status, text, headers={"Connection": "close", **(headers or {})})
