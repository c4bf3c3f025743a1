"""Servers that all tests of a file share, and collections of their own on them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from milvus_server import Kind, MilvusServer

_NUMBERS = count()


@contextmanager
def _running(kind: Kind, folder: Path) -> Iterator[MilvusServer]:
    folder.mkdir()
    server = MilvusServer(kind, folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with _running("lite", tmp_path_factory.mktemp("lite") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    with _running("real", tmp_path_factory.mktemp("real") / "data") as server:
        yield server


SERVERS = [
    pytest.param("lite", marks=pytest.mark.milvus),
    pytest.param("real", marks=[pytest.mark.milvus, pytest.mark.slow]),
]


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


@pytest.fixture(params=SERVERS)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MilvusServer]:
    """A server of each kind that a test may kill."""
    with _running(request.param, tmp_path / "data") as server:
        yield server


def new_name() -> str:
    return f"pictures_{next(_NUMBERS)}"


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What was logged as a warning up to now."""
    caplog.set_level(logging.WARNING)
    return lambda: caplog.text
