"""Collections of their own for tests, on the servers that all share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from milvus_server import SERVERS, MilvusServer

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


def new_name() -> str:
    return f"pictures_{next(_NUMBERS)}"


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What was logged as a warning up to now."""
    caplog.set_level(logging.WARNING)
    return lambda: caplog.text
