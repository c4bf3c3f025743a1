"""Which web pages may reach the service through a visitor's browser: its own, and no others."""

from __future__ import annotations

import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers

_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})


def foreign_page(method: str, headers: Headers, names: Collection[str]) -> bool:
    """Whether a page of another origin asks for a change, by what browsers say of it.

    Sec-Fetch-Site where it is sent; else, over plain HTTP and by older browsers, the host of Origin, which is to be the
    one that was asked, here or of a proxy (X-Forwarded-Host, which no page can send). Pages of hosts called one of
    `names` are ours. A program that is no browser sends neither. What only looks is left to the browser, which shows no
    other page the answer.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if method in _LOOKS or site in ("same-origin", "none") or (site is None and origin is None):
        return False
    host = _host(origin or "")
    asked = {_host(f"//{headers[name]}") for name in ("host", "x-forwarded-host") if name in headers}
    return not host or host not in {*names, *(asked if site is None else ())}


def foreign_name(headers: Headers, names: Collection[str]) -> bool:
    """Whether the Host is a name that is none of ours, so that its owner could let it point here (DNS rebinding).

    Ours are addresses, `localhost`, names without a dot, the machine's own name, and `names`.
    """
    host = _host(f"//{headers.get('host', '')}")
    if host in {socket.gethostname().lower(), *names}:
        return False
    _, dot, last = host.rpartition(".")
    return bool(dot) and last != "localhost" and not last.isdecimal()  # to browsers, a number ends an address


def _host(url: str) -> str:
    """The host of an address, in lower case and without port; "" if it has none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
