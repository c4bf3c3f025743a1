"""The outer edge of every request: its id, its key, where it came from, safety headers, the log, the last resort."""

from __future__ import annotations

import logging
import re
import socket
import time
import uuid
from collections.abc import Collection, Sequence
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diptych.http.metrics import Metrics
from diptych.http.middleware.auth import CHALLENGES, Key, find_key
from diptych.http.middleware.body_limits import BodyLimits
from diptych.http.middleware.errors import ERROR_CODE, RequestError, make_envelope
from diptych.scoring.tracing import note_request, trace_id

logger = logging.getLogger(__name__)
access = logging.getLogger("diptych.access")

_STATIC = ("/page/", "/swagger/")  # files that a page loads, a line for each of which nobody would read
OPEN = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})  # without a key

_SHOWN = 128  # characters of a path, of which the log has more for those that are escaped
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


class OuterMiddleware:
    """ASGI middleware around the whole app.

    Takes X-Request-ID from the caller or makes one; refuses who brings none of the `keys`, on every route but `OPEN`,
    or, where there are none, who asks under a name that is none of `hosts`; refuses writes that a foreign web page
    makes through a visitor's browser; bounds bodies; answers what nobody caught; counts and logs.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        body_limits: BodyLimits,
        keys: Sequence[Key] = (),
        hosts: Collection[str] = (),
        metrics: Metrics | None = None,
    ) -> None:
        self.app = app
        self.body_limits, self.keys, self.hosts, self.metrics = body_limits, keys, hosts, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI calls it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        if method == "HEAD":  # answered as GET is, and the server leaves the body out
            scope = {**scope, "method": "GET"}
        headers = Headers(scope=scope)
        asked = headers.get("x-request-id", "")
        request_id = asked if _REQUEST_ID.fullmatch(asked) else uuid.uuid4().hex
        state = scope.setdefault("state", {})
        state["request_id"], state["key"] = request_id, None
        note_request(request_id)
        began, started, lost = time.perf_counter(), False, False

        async def send_marked(message: Message) -> None:
            nonlocal started, lost
            if message["type"] == "http.response.start":
                started = True
                outgoing = MutableHeaders(scope=message)
                seconds = time.perf_counter() - began
                self._note_answer(scope, method, message["status"], outgoing.get(ERROR_CODE), seconds)
                outgoing["X-Request-ID"] = request_id
                if body.has_more:  # which is not read any more
                    outgoing["Connection"] = "close"
                for name, value in _SAFETY.items():
                    outgoing.setdefault(name, value)
            try:
                await send(message)
            except Exception:  # the server answered a request that is no HTTP itself, and takes nothing more
                lost = True
                raise

        with self.body_limits.limit_body(headers, receive) as body:
            refusal = None if scope["path"] in OPEN else self._refuse_caller(scope, headers)
            try:
                await (refusal or self.app)(scope, body, send_marked)
            except Exception:
                if lost or (started and body.refused):  # the client's fault, which nobody can be told any more
                    return
                logger.exception("request %s failed", request_id)
                if started:
                    raise
                text = f"The service failed on this request; its log has the details under {request_id}."
                answer = make_envelope(request_id, RequestError(500, "internal_error", text))
                await answer(scope, body, send_marked)

    def _refuse_caller(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse a caller without a key, or from a foreign page; sets the key of others."""
        state = scope["state"]
        if self.keys:
            state["key"] = find_key(self.keys, headers)
            if state["key"] is None:
                text = "This service asks for a key that it knows, as `Authorization: Bearer KEY` or as `X-API-Key`."
                refusal = make_envelope(state["request_id"], RequestError(401, "unauthorized", text))
                for challenge in CHALLENGES:
                    refusal.headers.append("WWW-Authenticate", challenge)
                return refusal
        elif is_foreign_name(headers, self.hosts):
            text = "The Host of this request is not known here; if it is yours, name it in DIPTYCH_HOSTS, or set keys."
            return make_envelope(state["request_id"], RequestError(403, "unknown_host", text))
        if is_foreign_page(scope["method"], headers, self.hosts):
            text = "This request came from a page of another site; if that is yours, name its host in DIPTYCH_HOSTS."
            return make_envelope(state["request_id"], RequestError(403, "cross_site_request", text))
        return None

    def _note_answer(self, scope: Scope, method: str, status: int, reason: str | None, seconds: float) -> None:
        """Count and log an answer whose head is about to be sent."""
        # What the router found, not what was asked for: that could be anything, and each would be counted for ever.
        route = getattr(scope.get("route"), "path", "other")
        method = method if method in _METHODS else "other"
        path = quote(scope["path"][:_SHOWN])  # which may have line ends in it
        if self.metrics is not None:
            self.metrics.count_request(route, method, status, seconds, reason)
        key: Key | None = scope["state"]["key"]
        who = {"request": scope["state"]["request_id"], "key": key and key.name, "error": reason}
        text = ", ".join(f"{name} {value}" for name, value in who.items() if value is not None)
        ms = round(seconds * 1000, 1)
        fields = {"method": method, "path": path, "status": status, "ms": ms, "trace_id": trace_id()}
        fields |= {"request_id": who["request"], "key": who["key"], "error": reason}
        quiet = scope["path"] in OPEN or (status < 400 and scope["path"].startswith(_STATIC))
        level = logging.DEBUG if quiet else logging.INFO
        access.log(level, "%s %s %d in %.1f ms, %s", method, path, status, ms, text, extra=fields)


_PORTS = {"http": 80, "https": 443}
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_foreign_page(method: str, headers: Headers, names: Collection[str]) -> bool:
    """True if a page of another origin requests a change, by the headers of its browser.

    Sec-Fetch-Site where it is sent; else, over plain HTTP and by older browsers, host and port of Origin, which are to
    be those that were asked, here or of a proxy (X-Forwarded-Host, which no page can send). Pages of hosts called one
    of `names` are ours, at whatever port. A program that is no browser sends neither. What only looks is left to the
    browser, which shows no other page the answer.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method in _LOOKS or site in ("same-origin", "none") or (site is None and origin is None):
        return False
    host = _find_host(origin or "")
    if not host or host in names or site is not None:
        return host not in names
    scheme = urlsplit(origin or "").scheme
    asked = {_split_address(f"{scheme}://{headers[name]}") for name in ("host", "x-forwarded-host") if name in headers}
    return _split_address(origin or "") not in asked


def is_foreign_name(headers: Headers, names: Collection[str]) -> bool:
    """True if the Host is a foreign name, whose owner could let it point here (DNS rebinding).

    Ours are addresses, `localhost`, names without a dot, the machine's own name, and `names`.
    """
    host = _find_host(f"//{headers.get('host', '')}")
    if host in {socket.gethostname().lower(), *names}:
        return False
    _, dot, last = host.rpartition(".")
    return bool(dot) and last != "localhost" and not last.isdecimal()  # to browsers, a number ends an address


def _split_address(url: str) -> tuple[str, int | None]:
    """Split an address into host and port, by default the port of its scheme."""
    try:
        found = urlsplit(url)
        return _find_host(url), found.port or _PORTS.get(found.scheme)
    except ValueError:
        return "", None


def _find_host(url: str) -> str:
    """Find the host of an address, in lower case and without port; "" if none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
