"""What a deployment may set about the HTTP face."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Settings:
    """Limits of the HTTP face; every one is a positive number, shown under `limits` of `/info`.

    `body_bytes`: a request's body, counted while it arrives. `pictures`: pictures in one request (queries, documents,
    inputs or files). `top` and `candidates`: the most a search may ask for. `workers`: requests worked on at the same
    time; their pairs are scored by one engine, in turns. `waiting`: requests that may queue before 429 is answered.
    `stuck_seconds`: a computation that takes longer makes `/readyz` say so.
    """

    body_bytes: int = 64 * 1024 * 1024
    pictures: int = 256
    top: int = 1000
    candidates: int = 1000
    workers: int = 8
    waiting: int = 32
    stuck_seconds: float = 300.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"Settings.{field.name} must be a positive number, got {value!r}")
