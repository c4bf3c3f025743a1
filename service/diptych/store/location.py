"""The location of a Milvus collection: `milvus://user:password@host:port/collection?originals=DIR`, or a folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from diptych_runtime.errors import ArgumentError
from diptych_runtime.paths import expand_home

SCHEMES = {"milvus": "http", "milvuss": "https", "milvus+tls": "https"}
PORT = 19530
OWN = REBUILDING, REPLACED = "_rebuilding", "_replaced"  # what a rebuild's names for collections end in
TOKEN = "DIPTYCH_MILVUS_TOKEN"
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,199}")
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]+://")  # of two letters at least: one is a drive


@dataclass(frozen=True)
class Address:
    """A collection on a Milvus server; as text it has no password.

    `originals` is the folder in which the files of pictures are kept, the same for all who use the collection; with
    `strong` every reading waits for all that was written before it, also on servers with replicas in memory.
    """

    server: str
    collection: str
    text: str
    token: str = field(repr=False)
    originals: Path | None = None
    strong: bool = False

    def __str__(self) -> str:
        return self.text


Location = str | os.PathLike[str] | Address


def parse_location(where: Location) -> Path | Address:
    """The Milvus collection or the folder that is meant. Raises ArgumentError for an address that is none."""
    if isinstance(where, Address):
        return where
    text = os.fspath(where)
    # A Path makes one slash of two.
    scheme, separator, rest = text.partition(":/")
    if separator and scheme.lower() in SCHEMES:
        return _parse_address(scheme.lower(), rest.lstrip("/"))
    if _SCHEME.match(text):  # it may have a password, so it is not repeated
        raise ArgumentError(f"expected a folder, or an address that begins with {'://, '.join(SCHEMES)}://")
    return Path(expand_home(text))


def _parse_address(scheme: str, rest: str) -> Address:
    wrong = ArgumentError(
        f"expected {scheme}://[USER:PASSWORD@]HOST[:PORT]/COLLECTION[?originals=DIR][&consistency=bounded|strong]; "
        "PORT is 1 to 65535, COLLECTION has letters, digits and _, no digit first, and does not end in "
        f"{' or '.join(OWN)}; in USER and PASSWORD write all but letters and digits as %XX"
    )
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        host, port = parts.hostname, parts.port or PORT
    except ValueError:  # says all of it, with the password
        raise wrong from None
    name = parts.path.strip("/")
    options = parse_qs(parts.query, keep_blank_values=True)
    consistency = options.get("consistency", ["bounded"])[-1]
    named = _NAME.fullmatch(name) and not name.endswith(OWN) and not parts.fragment
    strange = options.keys() - {"originals", "consistency"} or consistency not in ("bounded", "strong")
    if not host or not named or strange:
        raise wrong
    originals = options.get("originals", [""])[-1]
    shown = f"[{host}]" if ":" in host else host
    own = parts.username and f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Address(
        server=f"{SCHEMES[scheme]}://{shown}:{port}",
        collection=name,
        text=f"{scheme}://{shown}:{port}/{name}" + (f"?{parts.query}" if parts.query else ""),
        token=own or os.environ.get(TOKEN, ""),
        originals=Path(expand_home(originals)).absolute() if originals else None,
        strong=consistency == "strong",
    )
