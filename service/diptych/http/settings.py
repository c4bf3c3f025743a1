"""What a deployment may set about the HTTP face: in the environment, in a file, or both.

Each field is the variable `DIPTYCH_<NAME>` and the key `name` of a TOML file; the environment wins.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from diptych.errors import SettingsError
from diptych.http.middleware.auth import Key, parse_key
from diptych.pictures.url_guard import RemoteLimits, is_host

PREFIX = "DIPTYCH_"
# Read elsewhere: by the kernel, the runtime, the trainer, the store, and below.
_OTHERS = frozenset({"KERNEL", "GPU_MEMORY", "DATA", "MILVUS_TOKEN", "CONFIG"})


class Settings(BaseSettings):
    """Limits, keys and logs of the HTTP face; those that a request can meet are shown under `limits` of `/info`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, env_ignore_empty=True)

    keys: Annotated[tuple[Key, ...], NoDecode] = Field(
        default=(), description="who may ask, as lines of `diptych key`; with none, whoever reaches the port"
    )
    hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="its host names: those with a dot it has to know while there are no keys, and behind some proxies",
    )
    body_bytes: int = Field(
        default=64 * 1024 * 1024, gt=0, description="bytes of a request's body, counted while it arrives"
    )
    body_seconds: float = Field(default=120.0, gt=0, description="how long a body may take before 408 is answered")
    bodies_bytes: int = Field(
        default=512 * 1024 * 1024,
        gt=0,
        description="bytes of the bodies of all requests being answered before 429 is answered; one always finds room",
    )
    pictures: int = Field(default=256, gt=0, description="pictures in one request")
    top: int = Field(default=1000, gt=0, description="matches that a search may ask for")
    candidates: int = Field(default=1000, gt=0, description="candidates that a search may ask for")
    workers: int = Field(
        default=8, gt=0, description="requests worked on at once; their pairs are scored together, in turns"
    )
    waiting: int = Field(default=32, ge=0, description="requests that may wait for a worker before 429 is answered")
    pairs: int = Field(default=50_000, gt=0, description="pairs that may wait to be scored before 429 is answered")
    seconds: float = Field(default=60.0, gt=0, description="how long a request may take before 504 is answered")
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
    stuck_seconds: float = Field(
        default=300.0,
        gt=0,
        description="a computation that takes longer is stuck: unready, and the process ends with code 70",
    )
    drain_seconds: float = Field(
        default=0.0, ge=0, description="after SIGTERM: how long it still answers, unready, before it takes no more"
    )
    log: Literal["text", "json"] = Field(default="text", description="form of the log, a line an event")

    @field_validator("keys", mode="before")
    @classmethod
    def _lines(cls, value: Any) -> Any:
        lines = value.split() if isinstance(value, str) else value
        return [parse_key(line) if isinstance(line, str) else line for line in lines]

    @field_validator("hosts", "url_hosts", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return tuple(value.split() if isinstance(value, str) else value)

    @field_validator("hosts")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(name.lower().rstrip(".") for name in value)
        for name in names:
            if not is_host(name):
                raise ValueError(f"expected names like pictures.example.org, with spaces between, and not {name[:200]}")
        return names

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
    def load(cls, file: str | os.PathLike[str] | None = None) -> Settings:
        """The settings of the environment and of a TOML file, by default the one that DIPTYCH_CONFIG names.

        Raises SettingsError for what cannot be read, for a value out of its range and for a name that nobody knows,
        in the environment too: a key that is misspelt must not leave a service open.
        """
        names = set(cls.model_fields)
        for variable in os.environ:
            name = variable.removeprefix(PREFIX)
            if variable.startswith(PREFIX) and name not in _OTHERS and name.lower() not in names:
                raise _unknown(f"the variable {variable}", variable, [PREFIX + n.upper() for n in names])
        path = file or os.environ.get(PREFIX + "CONFIG")
        values = _read(Path(path)) if path else {}
        for name in values:
            if name not in names:
                raise _unknown(f"{name!r} in {path}", name, sorted(names))
        try:
            return cls(**{name: value for name, value in values.items() if not os.environ.get(PREFIX + name.upper())})
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            got = "" if name == "keys" else f", got {first['input']!r}"  # it may be a secret
            raise SettingsError(f"{name} ({PREFIX}{name.upper()}): {first['msg']}{got}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"the settings {path} cannot be read: {error}") from None


def _unknown(what: str, name: str, known: list[str]) -> SettingsError:
    close = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
    return SettingsError(f"{what} is no setting; {hint}")
