"""What every request passes first and every answer last: its id, its key, the size cap, the safety headers, a line in
the log, and the last resort.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Sequence
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diptych.http.errors import ERROR_CODE, envelope, internal_error
from diptych.http.keys import CHALLENGES, Key, find_key
from diptych.http.metrics import Metrics
from diptych.tracing import note_request, trace_id

logger = logging.getLogger(__name__)
access = logging.getLogger("diptych.access")

OPEN = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})  # without a key

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_SAFETY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Edge:
    """ASGI middleware around the whole app.

    Takes X-Request-ID from the caller or makes one; refuses who brings none of the `keys`, if there are any, on every
    route but `OPEN`; refuses a body of more than `body_bytes` while it arrives; refuses writes that a foreign web page
    makes through a visitor's browser; turns what nobody caught into the envelope; counts and logs what was answered.
    """

    def __init__(
        self, app: ASGIApp, *, body_bytes: int, keys: Sequence[Key] = (), metrics: Metrics | None = None
    ) -> None:
        self.app = app
        self.body_bytes, self.keys, self.metrics = body_bytes, keys, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI calls it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        request_id = asked if _REQUEST_ID.fullmatch(asked) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"], state["key"] = request_id, None
        note_request(request_id)
        began, started = time.perf_counter(), False

        async def send_marked(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                outgoing = MutableHeaders(scope=message)
                self._note(scope, message["status"], outgoing.get(ERROR_CODE), time.perf_counter() - began)
                outgoing["X-Request-ID"] = request_id
                for name, value in _SAFETY.items():
                    outgoing.setdefault(name, value)
            await send(message)

        if self.keys and scope["path"] not in OPEN:
            state["key"] = find_key(self.keys, headers)
            if state["key"] is None:
                text = (
                    "This service asks for a key: send it as `Authorization: Bearer KEY` or as `X-API-Key`."
                    if not ({"authorization", "x-api-key"} & set(headers))
                    else "This key is not known here."
                )
                refusal = envelope(request_id, 401, "unauthorized", text)
                for challenge in CHALLENGES:
                    refusal.headers.append("WWW-Authenticate", challenge)
                await refusal(scope, receive, send_marked)
                return
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

    def _note(self, scope: Scope, status: int, reason: str | None, seconds: float) -> None:
        """Count and log an answer whose head is about to be sent."""
        # What the router found, not what was asked for: that could be anything, and each would be counted for ever.
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        path = quote(scope["path"])  # which may have line ends in it
        if self.metrics is not None:
            self.metrics.request(route, method, status, seconds)
            if reason is not None:
                self.metrics.refusal(reason)
        key: Key | None = scope["state"]["key"]
        fields = {
            "request_id": scope["state"]["request_id"],
            "method": method,
            "path": path,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "key": key and key.name,
            "error": reason,
            "trace_id": trace_id(),
        }
        level = logging.DEBUG if scope["path"] in OPEN else logging.INFO
        access.log(level, "%s %s %d in %.1f ms", method, path, status, seconds * 1000, extra=fields)

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
