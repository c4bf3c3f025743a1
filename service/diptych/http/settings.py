"""The settings of the HTTP interface, read as those of `diptych.pictures.settings`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from diptych.collection.registry import MOST_OPEN
from diptych.http.middleware.auth import Key, parse_key
from diptych.pictures.settings import MOST_BYTES, MOST_SECONDS, FetchSettings, Seconds, Words
from diptych.pictures.url_guard import is_host


class Settings(FetchSettings):
    """Limits, keys and logs of the HTTP face; those that are `SHOWN` are the `limits` of `/info`."""

    OWN: ClassVar[tuple[str, ...]] = ("",)  # all there are
    SHOWN: ClassVar[set[str]] = {
        *("body_bytes", "body_seconds", "bodies_bytes", "picture_bytes", "picture_pixels", "pictures", "pairs"),
        *("decode_memory", "decode_seconds", "url_bytes", "url_seconds", "urls"),
        *("seconds", "top", "candidates", "workers", "waiting"),
    }

    keys: Annotated[tuple[Key, ...], NoDecode] = Field(
        default=(),
        description="who may ask, as lines of `diptych key`; with none, whoever reaches this machine's own address",
    )
    hosts: Words = Field(
        default=(),
        description="its host names: those with a dot it has to know while there are no keys, and behind some proxies",
    )
    body_bytes: int = Field(
        default=64 * 1024 * 1024, gt=0, le=MOST_BYTES, description="bytes of a request's body, counted while it arrives"
    )
    body_seconds: Seconds = Field(default=120.0, description="how long a body may take before 408 is answered")
    bodies_bytes: int = Field(
        default=512 * 1024 * 1024,
        gt=0,
        le=MOST_BYTES,
        description="bytes of the bodies of all requests being answered before 429 is answered; one always finds room",
    )
    pictures: int = Field(default=256, gt=0, le=10**6, description="pictures in one request")
    top: int = Field(default=1000, gt=0, le=10**6, description="matches that a search may ask for")
    candidates: int = Field(default=1000, gt=0, le=10**6, description="candidates that a search may ask for")
    workers: int = Field(
        default=8, gt=0, le=1024, description="requests worked on at once; their pairs are scored together, in turns"
    )
    waiting: int = Field(
        default=32, ge=0, le=10**6, description="requests that may wait for a worker before 429 is answered"
    )
    pairs: int = Field(
        default=50_000, gt=0, le=10**9, description="pairs that may wait to be scored before 429 is answered"
    )
    seconds: Seconds = Field(default=60.0, description="how long a request may take before 504 is answered")
    stuck_seconds: Seconds = Field(
        default=300.0,
        description="a computation that takes longer is stuck: unready, and the process ends with code 70",
    )
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=MOST_SECONDS,
        description="after SIGTERM: how long it still answers, unready, before it takes no more",
    )
    open_collections: int = Field(
        default=MOST_OPEN,
        gt=0,
        le=10**6,
        description="collections held open at once, or as many as the limit of descriptors allows",
    )
    log: Literal["text", "json"] = Field(default="text", description="form of the log, a line an event")

    @field_validator("keys", mode="before")
    @classmethod
    def _parse_keys(cls, value: Any) -> Any:
        lines = value.replace(",", " ").split() if isinstance(value, str) else value
        return [parse_key(line) if isinstance(line, str) else line for line in lines]

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(name.lower().rstrip(".") for name in value)
        for name in names:
            if not is_host(name):
                raise ValueError(f"expected names like pictures.example.org, with spaces between, and not {name[:200]}")
        return names
