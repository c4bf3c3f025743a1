"""Pictures as a command line or a table names them: a path, `-` for standard input, or a web address."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache

from diptych.errors import RemoteRefusedError
from diptych_export.commandline import read_bytes

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
        from diptych.http.settings import Settings
        from diptych.remote import Remote

        settings = Settings.load()
        return Remote(settings.remote_limits).fetch if urls or settings.urls else refused

    return lambda url: allowed()(url)


def pictures(args: argparse.Namespace, names: Sequence[str]) -> list[str | bytes]:
    """Pictures as the command line names them: a path as it is, or the bytes of what else it names.

    Raises RemoteError for a web address that gives none.
    """
    fetch = fetcher(args.urls)
    return [read_bytes("-") if name == "-" else fetch(name) if is_address(name) else name for name in names]
