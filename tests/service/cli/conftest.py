"""What the tests of commands share: the words that name a small model, a collection that nobody has open, and stdin."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def model(artifact: Path) -> tuple[object, ...]:
    return "--model", artifact, "--threads", 1


@pytest.fixture
def store(collection) -> Path:
    """The folder of a collection of the gallery's 12 pictures that nobody has open."""
    collection.close()
    return collection.directory


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """`stdin(b"a,b")`: what the next command reads from standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""))

    return put
