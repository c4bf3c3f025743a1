"""Pictures behind web addresses: the one way in which they are fetched.

Such an address comes from a stranger, and this machine may reach what a stranger may not. So the name of every hop is
resolved once, all its addresses are checked, and the connection goes to one of these: nothing is resolved again.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, suppress
from typing import Any

import httpx

from diptych.errors import RemoteError, RemoteRefusedError, RemoteTimeoutError, RemoteTooLargeError
from diptych.pictures.url_guard import (
    Address,
    FetchLimits,
    Resolve,
    host_of,
    parse_url,
    resolve_host,
    resolve_public,
)

__all__ = ["FetchLimits", "Fetcher"]

logger = logging.getLogger(__name__)

_MOVED = frozenset({301, 302, 303, 307, 308})
_TRIES = 3  # of the addresses of one name
_HEADERS = {"Accept": "image/*", "Accept-Encoding": "identity", "Connection": "close", "User-Agent": "diptych"}


class Fetcher:
    """Fetches pictures by web address, from any thread; `resolve` gives addresses, `tls` the trusted certificates."""

    def __init__(
        self,
        limits: FetchLimits | None = None,
        *,
        resolve: Resolve = resolve_host,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits or FetchLimits()
        self._resolve = resolve
        self._tls = tls or httpx.create_ssl_context(trust_env=False)
        self._lock = threading.Lock()
        self._running: set[_Fetch] = set()
        self._closed = False

    def fetch(self, url: str) -> bytes:
        """The bytes behind an http or https address, whether they are a picture or not.

        Raises RemoteRefusedError for what is never asked for, RemoteTooLargeError, RemoteTimeoutError and RemoteError.
        """
        fetch = _Fetch(self.limits, self._resolve, self._tls)
        with self._lock:
            if self._closed:
                raise RemoteError("no pictures are fetched any more: the service is closing")
            self._running.add(fetch)
        try:
            threading.Thread(target=fetch.run, args=(url,), name="diptych-remote", daemon=True).start()
            return fetch.answer.result(self.limits.seconds)
        except TimeoutError:
            raise _timeout_error(self.limits) from None
        finally:
            fetch.cut_connection()
            with self._lock:
                self._running.discard(fetch)

    def close(self) -> None:
        """Fetch nothing any more; fetches in progress fail."""
        with self._lock:
            self._closed = True
            for fetch in self._running:
                fetch.end(RemoteError("the picture is not fetched any more: the service is closing"))


class _Fetch:
    """One picture on its way, in a thread of its own that can be left behind.

    A socket's timeout begins anew with every byte, and looking up a name has none. So who asked waits no longer than
    the limit, and then cuts the connection, which ends the thread.
    """

    def __init__(self, limits: FetchLimits, resolve: Resolve, tls: ssl.SSLContext) -> None:
        self.limits, self.resolve, self.tls = limits, resolve, tls
        self.answer: Future[bytes] = Future()
        self._deadline = time.monotonic() + limits.seconds
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._cut = False

    def run(self, text: str) -> None:
        """Fetch, and leave the content or the error in `answer`."""
        try:
            content = self._follow_redirects(text)
            with suppress(InvalidStateError):
                self.answer.set_result(content)
        except BaseException as error:  # whatever it is, who waits must hear of it
            self.end(error)

    def end(self, error: BaseException) -> None:
        """Wake up who waits, unless the answer is there."""
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def cut_connection(self) -> None:
        """End the connection there is, and any that comes."""
        with self._lock:
            self._cut = True
            self._shut_connection()

    def _follow_redirects(self, text: str) -> bytes:
        url = parse_url(text, self.limits)
        for _ in range(self.limits.redirects + 1):
            answer = self._ask_host(url)
            if isinstance(answer, bytes):
                return answer
            url = answer
        most = f"expected at most {self.limits.redirects} redirects"
        raise RemoteRefusedError(f"{most}, and then came one to {host_of(url)}; name the picture's own address")

    def _ask_host(self, url: httpx.URL) -> bytes | httpx.URL:
        """The picture, or where it has moved to."""
        error: httpx.HTTPError | None = None
        addresses = resolve_public(url, self.limits, self.resolve)[:_TRIES]
        for done, address in enumerate(addresses):
            try:
                return self._ask_at(address, url, connect=self._seconds_left() / (len(addresses) - done))
            except httpx.HTTPError as caught:
                logger.info("%s at %s: %r", host_of(url), address, caught)
                error = caught
                if not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    break
        if isinstance(error, httpx.TimeoutException):
            raise _timeout_error(self.limits)
        reason = type(error).__name__
        raise RemoteError(f"{host_of(url)} gave no whole answer ({reason}); try whether a browser can open the address")

    def _ask_at(self, address: Address, url: httpx.URL, *, connect: float) -> bytes | httpx.URL:
        """Request the URL from this address; the host's name is sent, and the certificate has to be for it."""
        timeout = httpx.Timeout(self._seconds_left(), connect=connect)
        request = httpx.Request(
            "GET",
            url.copy_with(host=str(address)),
            headers=_HEADERS | {"Host": url.netloc.decode("ascii")},
            extensions={"sni_hostname": host_of(url), "timeout": timeout.as_dict(), "trace": self._trace_connection},
        )
        try:
            # The transport alone: no cookies, and nobody else who reads where a redirect leads.
            with (
                httpx.HTTPTransport(verify=self.tls, trust_env=False) as transport,
                closing(transport.handle_request(request)) as response,
            ):
                if self._line is None:
                    raise RuntimeError(f"httpx {httpx.__version__} does not show its connection, so none can be cut")
                location = response.headers.get("location")
                if response.status_code in _MOVED and location is not None:
                    return self._next_url(url, location)
                return self._read_body(response, host_of(url))
        finally:
            self._hold_connection(None)

    def _next_url(self, url: httpx.URL, location: str) -> httpx.URL:
        try:
            moved = parse_url(location, self.limits, base=url)
        except RemoteRefusedError as error:
            raise RemoteRefusedError(f"{host_of(url)} redirects, and {error}") from None
        if (url.scheme, moved.scheme) == ("https", "http"):
            raise RemoteRefusedError(f"{host_of(url)} redirects from https to http; name the picture's own address")
        return moved

    def _read_body(self, response: httpx.Response, host: str) -> bytes:
        if response.status_code != 200:
            raise RemoteError(f"expected status 200 from {host}, got {response.status_code}; check the address")
        encoding = response.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise RemoteError(f"{host} sent the picture encoded as {encoding[:32]!r}, which was not asked for")
        content = bytearray()
        declared = int(response.headers.get("content-length", 0))
        if declared <= self.limits.bytes:
            for chunk in response.iter_raw():
                content += chunk
                if len(content) > self.limits.bytes:
                    break
            else:
                return bytes(content)
        got = f"got {max(declared, len(content)):,} or more; send a smaller picture"
        raise RemoteTooLargeError(f"expected at most {self.limits.bytes:,} bytes from {host}, {got}")

    def _trace_connection(self, event: str, info: dict[str, Any]) -> None:
        """Called by httpx at every step: learn of the connection as soon as there is one."""
        if event == "connection.connect_tcp.complete":
            self._hold_connection(info["return_value"].get_extra_info("socket").dup())

    def _hold_connection(self, line: socket.socket | None) -> None:
        with self._lock:
            if self._line is not None:
                self._line.close()
            self._line = line
            self._shut_connection()

    def _shut_connection(self) -> None:
        if self._cut and self._line is not None:
            with suppress(OSError):  # the server was faster
                self._line.shutdown(socket.SHUT_RDWR)

    def _seconds_left(self) -> float:
        """Seconds until the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0 or self._cut:
            raise _timeout_error(self.limits)
        return left


def _timeout_error(limits: FetchLimits) -> RemoteTimeoutError:
    return RemoteTimeoutError(f"the picture was not there within {limits.seconds:g} s; try again, or send it itself")
