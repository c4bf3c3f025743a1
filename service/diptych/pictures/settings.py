"""What a deployment may set about pictures that strangers name or send: in the environment, in a file, or both.

Each field is the variable `DIPTYCH_<NAME>` and the key `name` of a TOML file; the environment wins.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from diptych.errors import SettingsError
from diptych.pictures.url_guard import RemoteLimits

PREFIX = "DIPTYCH_"


class FetchSettings(BaseSettings):
    """Limits of fetching and decoding."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, env_ignore_empty=True)

    decode_seconds: float = Field(default=10.0, gt=0, description="how long decoding a picture may take")
    decode_memory: int = Field(default=2 * 1024**3, gt=0, description="bytes of memory that decoding one may take")
    urls: bool = Field(default=False, description="fetch pictures that a request names by web address")
    url_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="hosts to fetch from (`.example.org`: and all below); with none, any public one",
    )
    url_bytes: int = Field(default=32 * 1024 * 1024, gt=0, description="bytes of a fetched picture")
    url_seconds: float = Field(default=10.0, gt=0, description="how long fetching one may take, redirects and all")
    url_private: bool = Field(default=False, description="fetch from addresses that are not public too")

    @field_validator("url_hosts", mode="before")
    @classmethod
    def _url_words(cls, value: Any) -> Any:
        return words(value)

    @field_validator("url_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        RemoteLimits(hosts=value)
        return value

    @property
    def remote(self) -> RemoteLimits | None:
        """What may be fetched by web address; None for nothing."""
        return self.remote_limits if self.urls else None

    @property
    def remote_limits(self) -> RemoteLimits:
        """What bounds the fetching, where it is allowed."""
        return RemoteLimits(self.url_bytes, self.url_seconds, hosts=self.url_hosts, private=self.url_private)

    @classmethod
    def load(cls, file: str | os.PathLike[str] | None = None) -> Self:
        """The settings of the environment and of a TOML file, by default the one that DIPTYCH_CONFIG names.

        Raises SettingsError for what cannot be read and for a value out of its range; what others are named there is
        passed by.
        """
        path = configured(file)
        values = read_toml(path) if path else {}
        unset = {n: v for n, v in values.items() if n in cls.model_fields and not os.environ.get(PREFIX + n.upper())}
        try:
            return cls(**unset)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            got = "" if name == "keys" else f", got {first['input']!r}"  # it may be a secret
            raise SettingsError(f"{name} ({PREFIX}{name.upper()}): {first['msg']}{got}") from None


def words(value: Any) -> Any:
    """A text with spaces as a tuple of its words; anything else is left to the check."""
    return tuple(value.split() if isinstance(value, str) else value)


def configured(file: str | os.PathLike[str] | None) -> Path | None:
    """The file of settings that was named, or that DIPTYCH_CONFIG names."""
    path = file or os.environ.get(PREFIX + "CONFIG")
    return Path(path) if path else None


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a file. Raises SettingsError."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"the settings {path} cannot be read: {error}") from None
