from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import put

from diptych.collection import ingest
from diptych.collection.sync import run


@pytest.fixture
def folder(tmp_path: Path, photo_bytes) -> Path:
    """A folder with eight pictures that nobody has touched for an hour: 1 to 3, 5 to 7, more/0 and more/4."""
    for seed in range(8):
        put(tmp_path / "photos" / ("more" if seed % 4 == 0 else ".") / f"{seed}.jpg", photo_bytes(seed))
    return tmp_path / "photos"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def sync(diptych, artifact, store) -> Callable[..., Any]:
    """`sync(folder, "--checksum")` runs the command with --json."""
    return lambda *words: diptych(
        "index", "sync", *words, "--store", store, "--model", artifact, "--threads", 1, "--json"
    )


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, int]]:
    """How many files were read and how many pictures embedded since it was asked last."""
    done = {"read": 0, "embedded": 0}
    read, features = run._read_file, ingest.make_features

    def reading(path, limits):
        done["read"] += 1
        return read(path, limits)

    def embedding(pixels, scorer):
        done["embedded"] += len(pixels)
        return features(pixels, scorer)

    monkeypatch.setattr(run, "_read_file", reading)
    monkeypatch.setattr(ingest, "make_features", embedding)

    def ask() -> tuple[int, int]:
        found = done["read"], done["embedded"]
        done.update(read=0, embedded=0)
        return found

    return ask
