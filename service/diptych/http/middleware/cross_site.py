"""Which web pages may reach the service through a visitor's browser: its own, and no others."""

from __future__ import annotations

import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers

_PORTS = {"http": 80, "https": 443}
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})


def foreign_page(method: str, headers: Headers, names: Collection[str]) -> bool:
    """True if a page of another origin requests a change, by the headers of its browser.

    Sec-Fetch-Site where it is sent; else, over plain HTTP and by older browsers, host and port of Origin, which are to
    be those that were asked, here or of a proxy (X-Forwarded-Host, which no page can send). Pages of hosts called one
    of `names` are ours, at whatever port. A program that is no browser sends neither. What only looks is left to the
    browser, which shows no other page the answer.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method in _LOOKS or site in ("same-origin", "none") or (site is None and origin is None):
        return False
    host = _host(origin or "")
    if not host or host in names or site is not None:
        return host not in names
    scheme = urlsplit(origin or "").scheme
    asked = {_place(f"{scheme}://{headers[name]}") for name in ("host", "x-forwarded-host") if name in headers}
    return _place(origin or "") not in asked


def foreign_name(headers: Headers, names: Collection[str]) -> bool:
    """True if the Host is a foreign name, whose owner could let it point here (DNS rebinding).

    Ours are addresses, `localhost`, names without a dot, the machine's own name, and `names`.
    """
    host = _host(f"//{headers.get('host', '')}")
    if host in {socket.gethostname().lower(), *names}:
        return False
    _, dot, last = host.rpartition(".")
    return bool(dot) and last != "localhost" and not last.isdecimal()  # to browsers, a number ends an address


def _place(url: str) -> tuple[str, int | None]:
    """Host and port of an address, the port that its scheme has if it names none."""
    try:
        found = urlsplit(url)
        return _host(url), found.port or _PORTS.get(found.scheme)
    except ValueError:
        return "", None


def _host(url: str) -> str:
    """The host of an address, in lower case and without port; "" if it has none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
