"""A real service on a real socket: uvicorn in a thread, a small model with random weights, a small collection."""

from __future__ import annotations

import asyncio
import base64
import faulthandler
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from PIL import Image

from diptych.collection.collection import Collection
from diptych.collection.registry import Collections
from diptych.http.app import create_app
from diptych.http.connections import Connections, limit_connections
from diptych.http.middleware.auth import new_key
from diptych.http.settings import Settings
from diptych.scoring.scorer import Scorer
from diptych_runtime.closer_look.comparison import NOTHING, Comparison

DataUri = Callable[..., str]
Visit = Callable[..., Any]
Serve = Callable[..., AbstractContextManager[httpx.Client]]
# To read the certificates of the world takes a third of the time in which a service starts, and none is asked for.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _Server(uvicorn.Server):
    """Uvicorn, which notices in no time that it is to end, and not within a tenth of a second. It ends as `diptych
    serve` does: it reads no more of any body, and closes a connection that is made in that moment.
    """

    def __init__(self, app: FastAPI) -> None:
        self._body_limits, self._connections = app.state.body_limits, Connections(limit_connections())
        accept: Any = self._connections.make_connection
        super().__init__(uvicorn.Config(app, http=accept, port=0, log_level="error", ws="none"))

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._connections.ending = True
        self._body_limits.end_reading()
        await super().shutdown(sockets)


_visits: list[Any] = []  # of browsers: a page must not outlive the service that it asks for pictures


def _end_visits() -> None:
    while _visits:
        _visits.pop().close()


@contextmanager
def _running(
    stored: Collections | Collection | None, scorer: Scorer, settings: Settings | None = None, *, warm: bool = True
) -> Iterator[httpx.Client]:
    """The service for as long as the block lasts, as a client that knows its address; `warm`: once it has warmed up."""
    server = _Server(create_app(stored, scorer, settings=settings))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=_NO_CERTIFICATES) as client:
            while warm and "warming up" in client.get("/readyz").text:
                time.sleep(0.01)
            yield client
    finally:
        _end_visits()
        server.should_exit = True
        # One that never ends fails the test, or what is torn down after the last, in place of holding up the whole run.
        thread.join(60)
        if thread.is_alive():
            faulthandler.dump_traceback()
            pytest.fail("the service did not end within a minute")


@pytest.fixture(scope="session")
def scorer(artifact: Path) -> Scorer:
    return Scorer.load(str(artifact), provider="cpu", threads=1)


@contextmanager
def _five_pictures(directory: Path, scorer: Scorer, photo_bytes) -> Iterator[Collection]:
    with Collection.open(directory, scorer, create=True) as opened:
        for seed in range(5):
            opened.add(photo_bytes(seed), metadata={"seed": seed, "filename": f"photo-{seed}.jpg"}, keep_originals=True)
        yield opened


@pytest.fixture
def collection(tmp_path: Path, scorer: Scorer, photo_bytes) -> Iterator[Collection]:
    """Five pictures, kept with their bytes."""
    with _five_pictures(tmp_path / "store", scorer, photo_bytes) as opened:
        yield opened


@pytest.fixture
def client(collection: Collection, scorer: Scorer) -> Iterator[httpx.Client]:
    """The service over the five pictures."""
    with _running(collection, scorer) as client:
        yield client


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory, scorer: Scorer, photo_bytes) -> Iterator[Collection]:
    """The same five pictures for all tests that change nothing."""
    with _five_pictures(tmp_path_factory.mktemp("shelf"), scorer, photo_bytes) as opened:
        yield opened


@pytest.fixture(scope="session")
def reader(shelf: Collection, scorer: Scorer) -> Iterator[httpx.Client]:
    """One service over the shelf, for all tests that change nothing."""
    with _running(shelf, scorer) as client:
        yield client


@pytest.fixture
def serve(collection: Collection, scorer: Scorer) -> Serve:
    """`with serve(Settings(...)) as client:` runs the service with other settings."""
    return lambda settings=None, *, stored=True: _running(collection if stored else None, scorer, settings)


@pytest.fixture(scope="session")
def running() -> Serve:
    """`with running(collection, scorer, settings) as client:` runs a service of one's own making."""
    return _running


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where `several` has its collections."""
    return tmp_path / "root"


@pytest.fixture
def several(root: Path, scorer: Scorer) -> Serve:
    """`with several("shoes", "bags", settings=...) as client:` serves a root, in which these are made first."""

    @contextmanager
    def serve(*names: str, settings: Settings | None = None) -> Iterator[httpx.Client]:
        with Collections.open(root, scorer) as collections:
            for name in names:
                collections.create(name)
            with _running(collections, scorer, settings) as client:
                yield client

    return serve


@pytest.fixture(scope="session")
def data_uri() -> DataUri:
    """`data_uri(data)` gives the bytes as a data URI."""
    return lambda data, kind="image/jpeg": f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.fixture
def visit(browser) -> Iterator[Visit]:
    """`visit(client, "#/compare", refusals=True)` opens the page. In the end, nothing may have gone wrong in it but,
    where that is expected, requests that the service refused and messages that begin with `foreign`, of code that is
    not ours; and no other host was asked.
    """
    faults: list[str] = []

    def visit(client, address: str = "", *, refusals: bool = False, foreign: str = "\n", **options: Any) -> Any:
        base = str(client.base_url).rstrip("/")
        context = browser.new_context(**options)
        _visits.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)

        def heard(message) -> None:
            expected = message.text.startswith((foreign, "Failed to load resource") if refusals else foreign)
            if message.type in ("error", "warning") and not expected:
                faults.append(message.text)

        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", heard)
        page.on("request", lambda request: _check_host(request.url, base, faults))
        page.goto(f"{base}/{address}")
        return page

    yield visit
    _end_visits()
    assert faults == []


@pytest.fixture(scope="session")
def looking_only() -> tuple[Settings, dict[str, Any]]:
    """Settings with a key that may only read, and what a browser knows whose visitor has it."""
    secret, key = new_key("visitor", "read")
    return Settings(keys=(key,)), {"http_credentials": {"username": "any", "password": secret}}


@pytest.fixture(scope="session")
def refused(photo_bytes) -> dict[str, tuple[bytes, str]]:
    """Bytes that are no acceptable picture, by name, with a word of the reason that must be given."""
    dot, bomb = BytesIO(), BytesIO()
    Image.new("RGB", (1, 1)).save(dot, "PNG")
    Image.new("1", (12_000, 12_000)).save(bomb, "PNG")
    good = photo_bytes(7)
    return {
        "empty": (b"", "empty"),
        "text": (b"this is a shopping list\n", "not in a format that can be read"),
        "truncated": (good[: len(good) // 2], "damaged or cut short"),
        "bomb": (bomb.getvalue(), "megapixels"),
        "dot": (dot.getvalue(), "1x1"),
    }


def _check_host(url: str, base: str, faults: list[str]) -> None:
    if not url.startswith((base, "blob:", "data:")):
        faults.append(f"asked {url}")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pictures have the same pixels, but of some pairs nothing can be told: look-alikes are laid over each other
    slowly, and then none of them goes.
    """

    def compare(self: object, a: Any, b: Any) -> Comparison | None:
        return None if (int(a.id[:4], 16) ^ int(b.id[:4], 16)) % 3 == 0 else Comparison(NOTHING, NOTHING, equal=True)

    monkeypatch.setattr("diptych.dedupe.find.PixelComparisons.compare", compare)
