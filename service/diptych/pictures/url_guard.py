"""The guard of web addresses against requests into private networks (SSRF): all is checked before any is asked."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpx

from diptych.errors import RemoteError, RemoteRefusedError

logger = logging.getLogger(__name__)

Address = IPv4Address | IPv6Address
Resolve = Callable[[str], Sequence[str]]

_LENGTH = 2048
_PORTS = {"http": 80, "https": 443}
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$)(?:{_LABEL}\.)*{_LABEL}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")  # at the end of a host: some programs then read all of it as an address
_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
# 6to4, where a relay decides what is reached, and IETF protocols: what ipaddress says of them depends on its version.
_SPECIAL = (IPv6Network("2002::/16"), IPv4Network("192.0.0.0/24"))
# Where clouds tell their own machines secrets, as far as it is not link-local anyway: no pictures, in no intranet.
_METADATA = frozenset(
    ip_address(text) for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)


@dataclass(frozen=True)
class FetchLimits:
    """The limits of fetching: `bytes` of a picture, within `seconds` for all hops, from these ports and `hosts`.

    No `hosts` means any; ".example.org" means that host and all below it. `private` opens what is not public, for an
    intranet; what is link-local, multicast or a cloud's metadata stays closed.
    """

    bytes: int = 32 * 2**20
    seconds: float = 10.0
    redirects: int = 3
    ports: frozenset[int] = frozenset({80, 443})
    hosts: tuple[str, ...] = ()
    private: bool = False

    def __post_init__(self) -> None:
        if self.bytes < 1 or not self.seconds > 0 or self.redirects < 0:
            raise ValueError(f"expected bytes >= 1, seconds > 0 and redirects >= 0, got {self}")
        for host in self.hosts:
            if not is_host(host.removeprefix(".")):
                raise ValueError(f'expected hosts like "example.org" or ".example.org", in lower case, got {host!r}')


def resolve_host(host: str) -> list[str]:
    """All addresses of a name, as this machine knows them."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def host_of(url: httpx.URL) -> str:
    """The host as it is sent: lower case, in ASCII, an IPv6 address without brackets."""
    return url.raw_host.decode("ascii")


def parse_url(text: str, limits: FetchLimits, *, base: httpx.URL | None = None) -> httpx.URL:
    """A web address that may be asked as far as its text tells, relative to `base`; raises RemoteRefusedError."""
    if len(text) > _LENGTH:
        raise _refusal_error(f"expected at most {_LENGTH:,} characters, got {len(text):,}")
    if odd := [char for char in text if char.isspace() or not char.isprintable() or char == "\\"]:
        raise _refusal_error(f"expected no spaces, control characters or backslashes, got {odd[0]!r}")
    try:
        url = base.join(text) if base else httpx.URL(text)
    except httpx.InvalidURL as error:
        raise _refusal_error(f"it cannot be read: {error}") from None
    if url.scheme not in _PORTS:
        raise _refusal_error(f"expected one that begins with http:// or https://, got {url.scheme or text[:32]!r}")
    if url.userinfo:
        raise _refusal_error("expected no user name and no password in it; neither is ever sent")
    port = _PORTS[url.scheme] if url.port is None else url.port
    if port not in limits.ports:
        raise _refusal_error(f"expected port {' or '.join(map(str, sorted(limits.ports)))}, got {port}")
    host = host_of(url)
    name = str(_parse_literal(host) or host)
    if limits.hosts and not any(_covers_host(allowed, name) for allowed in limits.hosts):
        raise _refusal_error(f"{host} is not among the hosts that may be asked; send the picture itself")
    return url


def resolve_public(url: httpx.URL, limits: FetchLimits, resolve: Resolve) -> list[Address]:
    """The addresses of a read URL's host, when all of them may be asked; raises RemoteError otherwise.

    Which addresses they are is for the log: who names a host need not learn what it is called inside.
    """
    host = host_of(url)
    literal = _parse_literal(host)
    try:
        found = [literal] if literal else [ip_address(text) for text in dict.fromkeys(resolve(host))]
    except OSError as error:
        logger.info("%s is not resolved: %s", host, error)
        found = []
    if not found:
        raise RemoteError(f"no address is known for {host}; check how it is spelled")
    closed = [str(address) for address in found if not _is_public(address, private=limits.private)]
    if closed:
        logger.info("%s is refused for %s", host, ", ".join(closed))
        raise _refusal_error(f"{host} is not, or not only, on the public internet; send the picture itself")
    return found


def _covers_host(allowed: str, host: str) -> bool:
    return host == allowed or (allowed.startswith(".") and f".{host}".endswith(allowed))


def is_host(text: str) -> bool:
    """True for the name or address of a host in its form for comparison: lower case, an address as usual."""
    try:
        return str(_parse_literal(text) or text) == text
    except RemoteRefusedError:
        return False


def _parse_literal(host: str) -> Address | None:
    """The address that a host is, None for a name; refuses spellings that only some programs read as an address."""
    try:
        if ":" in host and "%" not in host:
            return IPv6Address(host)
        if _NUMBER.fullmatch(host.rpartition(".")[2]):
            return IPv4Address(host)
    except ValueError:
        pass
    else:
        if _NAME.fullmatch(host):
            return None
    raise _refusal_error(f"expected a host like example.org, 192.0.2.1 or [2001:db8::1], got {host!r}")


def _is_public(address: Address, *, private: bool) -> bool:
    """True if an address may be asked; one of IPv6 that stands for an IPv4 address is judged as that."""
    if isinstance(address, IPv6Address):
        within = IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None
        address = within or address.ipv4_mapped or address
    if address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA:
        return False
    if private:
        return True
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not any(address in network for network in _SPECIAL)


def _refusal_error(reason: str) -> RemoteRefusedError:
    return RemoteRefusedError(f"the web address is refused: {reason}")
