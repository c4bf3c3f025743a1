"""Pictures as a command line or a table names them: a path, `-` for standard input, or a web address."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from diptych.errors import RemoteRefusedError
from diptych_runtime.decoder import PictureLimits

if TYPE_CHECKING:
    from diptych.pictures.settings import FetchSettings

Fetch = Callable[[str], bytes]


def is_url(name: str) -> bool:
    """True if the name of a picture is a web address."""
    return name.lower().startswith(("http://", "https://"))


def refuse_url(url: str) -> bytes:
    """Fetch nothing. Raises RemoteRefusedError that says what would."""
    way = "add --urls to have such pictures fetched, in Python Scorer.load(urls=True), or set DIPTYCH_URLS=1"
    raise RemoteRefusedError(f"{url[:200]} is a web address; {way}")


def make_fetcher(urls: bool) -> Fetch:
    """The fetcher of web addresses within the limits of the service; without `urls` or DIPTYCH_URLS it refuses."""

    @cache
    def make_allowed() -> Fetch:
        from diptych.pictures.fetch import Fetcher

        settings = fetch_settings(urls)
        return refuse_url if settings is None else Fetcher(settings.remote_limits).fetch

    return lambda url: make_allowed()(url)


def fetch_settings(urls: bool) -> FetchSettings | None:
    """The settings where pictures may be fetched: by `urls`, or by the settings themselves; else None."""
    if not urls and not {"DIPTYCH_URLS", "DIPTYCH_CONFIG"} & os.environ.keys():
        return None  # without a look at them, which takes a tenth of a second
    from diptych.pictures.settings import FetchSettings

    settings = FetchSettings.load()
    return settings if urls or settings.urls else None


def picture_limits() -> PictureLimits:
    """The limits of pictures that are read, as the settings have them. Raises SettingsError."""
    if not any(name.startswith("DIPTYCH_PICTURE_") or name == "DIPTYCH_CONFIG" for name in os.environ):
        return PictureLimits()  # as in `fetch_settings`
    from diptych.pictures.settings import FetchSettings

    return FetchSettings.load().picture_limits
