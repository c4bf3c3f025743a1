"""Authentication of requests: keys that are kept as digests, and found in constant time."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, get_args

from starlette.datastructures import Headers

Role = Literal["read", "admin"]
# A header line each: a browser reads no further than the first challenge of a line, and knows only the second of these.
CHALLENGES = ('Bearer realm="diptych"', 'Basic realm="diptych", charset="UTF-8"')
_LINE = re.compile(r"([\w.-]{1,64}):(\w+):([0-9a-f]{64})")


@dataclass(frozen=True)
class Key:
    """A key by its name, its role ("read": everything but change the collection) and the SHA-256 of its secret.

    A secret is 256 random bits, so that a plain digest of it tells nothing.
    """

    name: str
    role: Role
    digest: str


def new_key(name: str, role: Role) -> tuple[str, Key]:
    """A new secret, which is shown once and kept nowhere, and its key. Raises ValueError for a name that is no word."""
    secret = secrets.token_urlsafe(32)
    return secret, parse_key(f"{name}:{role}:{_hash_secret(secret)}")


def parse_key(line: str) -> Key:
    """A key as `key_line` wrote it; ValueError for anything else, without the text, which may be a secret."""
    found = _LINE.fullmatch(line)
    if found is None or found[2] not in get_args(Role):
        raise ValueError(
            "a key is NAME:read:DIGEST or NAME:admin:DIGEST, with letters, digits, '.', '_' and '-' in the name; "
            "make one with `diptych key NAME`"
        )
    return Key(found[1], found[2], found[3])  # pyright: ignore[reportArgumentType]


def key_line(key: Key) -> str:
    """The line of a key as settings have it."""
    return f"{key.name}:{key.role}:{key.digest}"


def find_key(keys: Sequence[Key], headers: Headers) -> Key | None:
    """The key whose secret a request carries, as `Authorization: Bearer`, as `X-API-Key` or as Basic's password.

    All keys are compared, whichever it is. Basic is what a browser asks its user for.
    """
    secret = _read_secret(headers)
    if secret is None:
        return None
    digest, found = _hash_secret(secret), None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            found = key
    return found


def _read_secret(headers: Headers) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip()
        case "basic":
            try:
                return base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, ValueError):
                return None
    return headers.get("x-api-key")


def _hash_secret(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
