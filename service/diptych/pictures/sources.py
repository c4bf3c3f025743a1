"""Pictures as a command line or a table names them: a path, `-` for standard input, or a web address."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from diptych.console import read_bytes
from diptych.errors import RemoteRefusedError
from diptych.scoring.decode_pool import Decoder, Threads, Workers

if TYPE_CHECKING:
    from diptych.http.settings import Settings

Fetch = Callable[[str], bytes]


def is_address(name: str) -> bool:
    """Whether this names a picture by web address."""
    return name.lower().startswith(("http://", "https://"))


def refused(url: str) -> bytes:
    """Fetch nothing. Raises RemoteRefusedError that says what would."""
    raise RemoteRefusedError(f"{url[:200]} is a web address; add --urls to have such pictures fetched")


def fetcher(urls: bool) -> Fetch:
    """What gets the bytes behind a web address, within the limits that the service has too (DIPTYCH_URL_*).

    Without `urls` or DIPTYCH_URLS it refuses every address: a name in a table may come from a stranger.
    """

    @cache
    def allowed() -> Fetch:
        from diptych.pictures.fetch import Remote

        settings = _fetching(urls)
        return refused if settings is None else Remote(settings.remote_limits).fetch

    return lambda url: allowed()(url)


def decoder(urls: bool, threads: int) -> Decoder:
    """What decodes pictures: where some may be fetched, which are strangers', processes with the bounds of the service
    (DIPTYCH_DECODE_*), else threads. A batch's worker is such a process already, which may have no others.
    """
    settings = None if multiprocessing.current_process().daemon else _fetching(urls)
    if settings is None:
        return Threads(threads)
    return Workers(threads, seconds=settings.decode_seconds, memory=settings.decode_memory)


def _fetching(urls: bool) -> Settings | None:
    """The settings where pictures may be fetched: by `urls`, or by the settings themselves; else None."""
    if not urls and not {"DIPTYCH_URLS", "DIPTYCH_CONFIG"} & os.environ.keys():
        return None  # without a look at them, which takes a tenth of a second
    from diptych.http.settings import Settings

    settings = Settings.load()
    return settings if urls or settings.urls else None


def pictures(args: argparse.Namespace, names: Sequence[str]) -> list[str | bytes]:
    """Pictures as the command line names them: a path as it is, or the bytes of what else it names.

    Raises RemoteError for a web address that gives none.
    """
    fetch = fetcher(args.urls)
    return [read_bytes("-") if name == "-" else fetch(name) if is_address(name) else name for name in names]
