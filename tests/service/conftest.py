"""What the service's tests share: collections, folders of pictures, servers and a browser."""

import io
import itertools
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answering import Answer, Routes, Server
from milvus_server import MilvusServer
from PIL import Image

from diptych import Collection, Scorer
from diptych.pictures.file_info import Picture

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    # What is not in sight is tested too, and widths are those of pages without bars.
    *("--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows"),
    *("--disable-renderer-backgrounding", "--hide-scrollbars", "--force-color-profile=srgb"),
]


@pytest.fixture(scope="session")
def network_alone() -> Scorer:
    """A released model that takes no closer look and holds nothing against rivals: of two pictures it says what the
    network says.
    """
    scorer = Scorer.load("photo-small", threads=2)
    runtime = scorer.runtime
    questions = {
        name: replace(asked, verification=None, cohort=0.0, after_look=None)
        for name, asked in runtime.manifest.questions.items()
    }
    runtime.manifest = replace(runtime.manifest, questions=questions)
    runtime._set_question(runtime.question)
    return scorer


@pytest.fixture(autouse=True)
def nobodys_store(data_home: Path) -> None:
    """No test of the service meets the store of whoever runs it."""


@pytest.fixture(scope="session")
def other_artifact(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same graphs under another revision's name: a model that a collection was not made with."""
    directory = tmp_path_factory.mktemp("other") / "other"
    directory.mkdir()
    for file in artifact.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["revision"] = "0123456789ab"
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


@pytest.fixture
def gallery(tmp_path: Path, photo_bytes) -> Path:
    """A folder with 12 pictures, some of them in a folder inside it."""
    folder = tmp_path / "gallery"
    (folder / "more").mkdir(parents=True)
    for seed in range(12):
        place = folder / "more" if seed % 3 == 0 else folder
        (place / f"{seed:02d}.jpg").write_bytes(photo_bytes(seed))
    return folder


@pytest.fixture
def collection(tmp_path: Path, scorer: Scorer, gallery: Path):
    """A collection of the gallery's pictures."""
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        collection.add(sorted(gallery.rglob("*.jpg")))
        yield collection


@pytest.fixture
def bad_pictures(tmp_path: Path, photo_bytes) -> dict[str, Path]:
    """One file of each kind that must be refused, by what is wrong with it."""
    folder = tmp_path / "bad"
    folder.mkdir()
    whole = photo_bytes(0, (96, 64), "JPEG")
    contents = {
        "empty": ("empty.jpg", b""),
        "text": ("text.jpg", b"this is no picture\n" * 20),
        "truncated": ("truncated.jpg", whole[: len(whole) // 2]),
        "pixel": ("pixel.png", photo_bytes(0, (1, 1), "PNG")),
    }
    for name, data in contents.values():
        (folder / name).write_bytes(data)
    Image.new("1", (12_000, 12_000)).save(folder / "bomb.png")
    paths = {kind: folder / name for kind, (name, _) in contents.items()}
    return paths | {"bomb": folder / "bomb.png", "missing": folder / "missing.jpg"}


@pytest.fixture
def picture() -> Callable[..., Picture]:
    """`picture(width=640)` is a record, each with another path and id unless they are given."""
    numbers = itertools.count()

    def make(**facts) -> Picture:
        number = next(numbers)
        made = {"id": f"{number:032x}", "path": f"/photos/{number:03d}.jpg", "bytes": 1000, "modified": 10**18}
        made |= {"width": 640, "height": 480, "format": "JPEG"}
        return Picture(**(made | facts))

    return make


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], io.StringIO]:
    """`stderr = terminal()`: from then on standard error is a terminal that keeps what is written to it."""

    def start() -> io.StringIO:  # in the test, as pytest sets its own before each phase
        stderr = io.StringIO()
        monkeypatch.setattr(stderr, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stderr", stderr)
        return stderr

    return start


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """`serve(answer)` starts a web server; an answer is a function, or the bytes that everyone gets."""
    servers: list[Server] = []

    def start(answer: Answer | bytes, *args: Any, **options: Any) -> Server:
        function = (lambda head, line: line.sendall(answer)) if isinstance(answer, bytes) else answer
        servers.append(Server(function, *args, **options))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> Routes:
    """`routed["93.184.216.34"] = server` leads connections to that address to the server; no others are made."""
    routes = Routes()
    monkeypatch.setattr(socket, "create_connection", routes.create_connection)
    return routes


@pytest.fixture(scope="session")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    """The light Milvus server, for all tests; one that kills it starts it again."""
    with MilvusServer("lite", tmp_path_factory.mktemp("lite") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    """The real Milvus server, for all tests; there cannot be two on one machine."""
    with MilvusServer("real", tmp_path_factory.mktemp("real") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where one Chromium is led from, which runs for all files of tests: to begin takes it longer than most of them."""
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    profile = tmp_path_factory.mktemp("chromium")
    command = [CHROMIUM, *FLAGS, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
    log = profile / "log"
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            limit = time.monotonic() + 60
            while not (said := re.search(r"DevTools listening on (ws://\S+)", log.read_text(errors="replace"))):
                assert process.poll() is None, log.read_text(errors="replace")
                assert time.monotonic() < limit, "Chromium did not begin within a minute"
                time.sleep(0.02)
            yield said[1]
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Chromium, for one file of tests: as long as it is led, no other event loop can run in this thread."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(request.getfixturevalue("chromium"))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def label_every_pair() -> Callable[[Collection], None]:
    """`label_every_pair(collection)`: those above the median of the network's scores the same, but for some."""

    def label(collection: Collection) -> None:
        ids = [record.id for record in collection.list(100)]
        pairs = [(a, b) for place, a in enumerate(ids) for b in ids[:place]]
        tokens = collection.panels(ids)
        logits = collection.scorer.logits(*(np.stack([tokens[pair[side]][0] for pair in pairs]) for side in (0, 1)))
        for number, ((a, b), high) in enumerate(zip(pairs, logits > np.median(logits), strict=True)):
            collection.label(a, b, "same" if high != (number % 5 == 0) else "different")

    return label
