"""What every request passes first and every answer last: its id, the safety headers, the size cap, the last resort."""

from __future__ import annotations

import logging
import re
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diptych.http.errors import envelope, internal_error

logger = logging.getLogger(__name__)

_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_SAFETY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Edge:
    """ASGI middleware around the whole app.

    Takes X-Request-ID from the caller or makes one; refuses a body of more than `body_bytes` while it arrives; refuses
    writes that a foreign web page makes through a visitor's browser; turns what nobody caught into the envelope.
    """

    def __init__(self, app: ASGIApp, *, body_bytes: int) -> None:
        self.app = app
        self.body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI calls it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        request_id = asked if _REQUEST_ID.fullmatch(asked) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_marked(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                outgoing = MutableHeaders(scope=message)
                outgoing["X-Request-ID"] = request_id
                for name, value in _SAFETY.items():
                    outgoing.setdefault(name, value)
            await send(message)

        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and headers.get("sec-fetch-site") == "cross-site":
            text = (
                "This request came from a web page of another site; pages may only talk to the service they came from."
            )
            await envelope(request_id, 403, "cross_site_request", text)(scope, receive, send_marked)
            return
        try:
            await self.app(scope, self._capped(headers, receive), send_marked)
        except Exception:
            logger.exception("request %s failed", request_id)
            if started:
                raise
            await internal_error(request_id)(scope, receive, send_marked)

    def _capped(self, headers: Headers, receive: Receive) -> Receive:
        announced = headers.get("content-length", "")
        total = 0

        async def receive_capped() -> Message:
            nonlocal total
            if announced.isdecimal() and int(announced) > self.body_bytes:
                raise self._too_large(f"{int(announced):,} bytes")
            message = await receive()
            total += len(message.get("body", b""))
            if total > self.body_bytes:
                raise self._too_large(f"more than {total - 1:,} bytes")
            return message

        return receive_capped

    def _too_large(self, size: str) -> HTTPException:
        return HTTPException(
            413,
            f"The body has {size}; at most {self.body_bytes:,} are allowed. Send fewer or smaller pictures.",
            headers={"Connection": "close"},
        )
