"""The seals by which a line of a journal is known to be of a run of this user, made with a key of the user's own."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from diptych_runtime.errors import NoHomeError
from diptych_runtime.own_files import open_own
from diptych_runtime.paths import data_folder

_BYTES = 32


def seal_of(line: dict[str, Any], first: str, key: bytes) -> str:
    """The seal of a journal's line; that of the `first` line is in it, so that it fits no other journal."""
    text = first + json.dumps(line)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def kept_key() -> bytes | None:
    """The key of this user, or None if none was made yet or it cannot be read."""
    try:
        with open_own(_key_file()) as file:
            key = file.read(_BYTES + 1)
    except (OSError, NoHomeError):
        return None
    return key if len(key) == _BYTES else None


def own_key() -> bytes | None:
    """The key of this user, made where there is none; None where it cannot be kept, and then nothing is sealed."""
    if (key := kept_key()) is not None:
        return key
    with suppress(OSError, NoHomeError):
        place = _key_file()
        made = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(_BYTES))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(made, place)
            except FileExistsError:  # another run was faster
                pass
            except OSError:  # there are no links, as on FAT
                made.rename(place)
        finally:
            made.unlink(missing_ok=True)
    return kept_key()


def _key_file() -> Path:
    """The file of the key, in the folder for the data of this user. Raises NoHomeError."""
    return (
        data_folder(otherwise="name a folder for the key of your journals with XDG_DATA_HOME") / "diptych-journals.key"
    )
