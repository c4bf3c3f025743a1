"""Collections of their own for tests, on the servers that all share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from milvus_server import SERVERS, MilvusServer

from diptych.errors import UnreachableError
from diptych.scoring.scorer import Scorer
from diptych.store.location import Address, parse_location
from diptych.store.milvus.client import Server

_NUMBERS = count()


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> MilvusServer:
    """A server of each kind; what tests put there has names of its own."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["folder", *SERVERS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new collection can be made: in a folder, and on a server of each kind."""
    if request.param == "folder":
        return str(tmp_path / "store")
    return request.getfixturevalue(request.param).place(new_name(), originals=tmp_path / "originals")


@pytest.fixture
def address(server: MilvusServer, tmp_path: Path) -> str:
    """Where a new collection can be made on a server of each kind."""
    return server.place(new_name(), originals=tmp_path / "originals")


@pytest.fixture
def milvus_address(address: str) -> Address:
    """That place, parsed."""
    found = parse_location(address)
    assert isinstance(found, Address)
    return found


@pytest.fixture
def other(other_artifact: Path) -> Scorer:
    """The scorer of another model."""
    return Scorer.load(str(other_artifact), provider="cpu", threads=1)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`cut(method, number, first)` breaks the line at the `number`th call of a method, after doing something else."""
    call, seen = Server.call, []

    def begin(method: str, number: int = 1, first: Callable[[], object] = lambda: None, *, breaks: bool = True) -> None:
        def broken(self: Server, called: str, *arguments: Any, **options: Any) -> Any:
            if called == method:
                seen.append(arguments)
                if len(seen) == number:
                    first()
                    if breaks:
                        raise UnreachableError("the line is cut", seconds=1)
            return call(self, called, *arguments, **options)

        monkeypatch.setattr(Server, "call", broken)

    return begin


def new_name() -> str:
    return f"pictures_{next(_NUMBERS)}"


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What was logged as a warning up to now."""
    caplog.set_level(logging.WARNING)
    return lambda: caplog.text
