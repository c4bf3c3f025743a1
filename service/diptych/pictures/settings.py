"""The settings for pictures that strangers name or send: in the environment, in a file, or both.

Each field is the variable `DIPTYCH_<NAME>` and the key `name` of a TOML file; the environment wins.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from diptych.errors import SettingsError
from diptych.pictures.url_guard import FetchLimits
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.parsing import parse_toml
from diptych_runtime.paths import given_path

PREFIX = "DIPTYCH_"
_LIMITS = PictureLimits()
# Variables of packages that know no settings, a password, and those that stand for options of the command line.
ELSEWHERE = frozenset(
    [
        *("KERNEL", "PAIR_PRECISION", "GPU_MEMORY", "DATA", "MODELS", "MILVUS_TOKEN", "STORE", "COLLECTIONS", "CREATE"),
        *("HOST", "PORT", "OPEN", "CONFIG", "SYNC", "SYNC_EVERY", "MODEL", "PROVIDER", "THREADS", "JSON", "QUIET"),
        *("KEEP_ORIGINALS", "STRICT", "DRY_RUN", "ENGINE", "ADDRESS", "EVERY", "CHECKSUM", "OUTPUT", "EMBEDDINGS"),
        *("FILTER", "LIMIT", "ALL", "METADATA", "KEEP_METADATA", "EXCLUDE", "INCLUDE_HIDDEN"),
    ]
)


def _split_words(value: Any) -> Any:
    return tuple(value.split() if isinstance(value, str) else value)


# As a text with spaces between, or as a list.
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_words)]


MOST_SECONDS, MOST_BYTES = 10**6, 2**50
Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]


class FetchSettings(BaseSettings):
    """Limits of fetching and decoding."""

    # How names begin that are its own, so that one of them which it does not know is a misspelt one.
    OWN: ClassVar[tuple[str, ...]] = ("url", "decode_", "picture_")

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, env_ignore_empty=True)

    picture_bytes: int = Field(default=_LIMITS.bytes, gt=0, lt=2**31, description="bytes of a picture that is read")
    picture_pixels: int = Field(default=_LIMITS.pixels, gt=0, lt=2**31, description="pixels of a picture that is read")
    decode_seconds: Seconds = Field(default=10.0, description="how long decoding a picture may take")
    decode_memory: int = Field(
        default=2 * 1024**3, gt=0, le=MOST_BYTES, description="bytes of memory that decoding one may take"
    )
    urls: bool = Field(default=False, description="fetch pictures that a request names by web address")
    url_hosts: Words = Field(
        default=(),
        description="hosts to fetch from (`.example.org`: and all below); with none, any public one",
    )
    url_bytes: int = Field(default=32 * 1024 * 1024, gt=0, le=MOST_BYTES, description="bytes of a fetched picture")
    url_seconds: Seconds = Field(default=10.0, description="how long fetching one may take, redirects and all")
    url_private: bool = Field(default=False, description="fetch from addresses that are not public too")

    @field_validator("url_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        FetchLimits(hosts=value)
        return value

    @property
    def remote(self) -> FetchLimits | None:
        """The limits of fetching by web address; None if nothing may be fetched."""
        return self.remote_limits if self.urls else None

    @property
    def remote_limits(self) -> FetchLimits:
        """The limits of fetching, where it is allowed."""
        return FetchLimits(self.url_bytes, self.url_seconds, hosts=self.url_hosts, private=self.url_private)

    @property
    def picture_limits(self) -> PictureLimits:
        """The limits of pictures that are read."""
        return PictureLimits(self.picture_bytes, self.picture_pixels)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | None = None) -> Self:
        """The settings of the environment and of a TOML file, by default the file named by DIPTYCH_CONFIG.

        Raises SettingsError, also for a name that nobody knows: a misspelt limit must not leave a service open.
        """
        path = file or os.environ.get(PREFIX + "CONFIG")
        values = _read_settings(Path(given_path(path))) if path else {}
        variables = [PREFIX + name.upper() for name in cls.model_fields]
        for variable in os.environ:
            name = variable.removeprefix(PREFIX)
            if variable.startswith(PREFIX) and name not in ELSEWHERE and cls._is_misspelt(name.lower()):
                raise _unknown_setting(f"the variable {variable}", variable, variables)
        for name in values:
            if cls._is_misspelt(name):
                raise _unknown_setting(f"{name!r} in {path}", name, sorted(cls.model_fields))
        unset = {n: v for n, v in values.items() if n in cls.model_fields and not os.environ.get(PREFIX + n.upper())}
        try:
            return cls(**unset)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            got = "" if name == "keys" else f", got {first['input']!r}"  # it may be a secret
            raise SettingsError(f"{name} ({PREFIX}{name.upper()}): {first['msg']}{got}") from None

    @classmethod
    def _is_misspelt(cls, name: str) -> bool:
        return name.startswith(cls.OWN) and name not in cls.model_fields


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"the settings {path} cannot be read: {error}") from None


def _unknown_setting(what: str, name: str, known: list[str]) -> SettingsError:
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
    return SettingsError(f"{what} is no setting; {hint}")
