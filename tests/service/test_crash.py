"""kill -9 and Ctrl-C in the middle of adding: nothing that was there is lost, and the same command finishes."""

import contextlib
import time
from pathlib import Path

import pytest

from diptych import Collection
from diptych.errors import StoreError
from diptych.store.sqlite.database import Store

PICTURES = 200


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    folder = tmp_path_factory.mktemp("many")
    for seed in range(PICTURES):
        (folder / f"{seed:03d}.png").write_bytes(photo_bytes(seed, (40, 40), "PNG"))
    return folder


def check(directory: Path, scorer, acknowledged: set[str]) -> int:
    """Everything acknowledged is stored, whole, and found by the index."""
    with Collection.open(directory, scorer) as collection:
        held = {record.id for record in collection.list(10 * PICTURES)}
        assert acknowledged <= held
        assert collection.verify().healthy
        everything = collection.search(next(Path(directory.parent, "queries").iterdir()), top=PICTURES, candidates=0)
        assert {match.id for match in everything.matches} == held
        return len(held)


@pytest.fixture
def directory(tmp_path, photo_bytes) -> Path:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "q.png").write_bytes(photo_bytes(0, (40, 40), "PNG"))
    return tmp_path / "store"


def test_kill_9_of_the_command_keeps_what_a_reader_had_seen_and_the_same_command_finishes(
    artifact, scorer, many, directory, spawn, diptych
):
    command = ["index", "add", many, "--store", directory, "--model", artifact, "--threads", 1]
    process = spawn(*command, "--quiet")
    seen: set[str] = set()
    limit = time.monotonic() + 120
    while not seen and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.005)
        with contextlib.suppress(StoreError), Store.open(directory, read_only=True) as reader:
            seen = {record.id for record in reader.page(PICTURES)}
    process.kill()
    process.wait()
    assert seen
    assert check(directory, scorer, seen) >= len(seen)
    finished = diptych(*command, "--json")
    assert finished.code == 0
    assert finished.json["added"] + finished.json["already"] == finished.json["total"] == PICTURES
    assert finished.json["already"] >= len(seen)


def test_ctrl_c_keeps_what_was_added_and_says_so(artifact, scorer, many, directory, monkeypatch, diptych):
    command = ["index", "add", many, "--store", directory, "--model", artifact, "--threads", 1]
    commit = Collection.commit
    calls = []

    def interrupted(self, arrivals):
        calls.append(len(arrivals))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return commit(self, arrivals)

    monkeypatch.setattr(Collection, "commit", interrupted)
    result = diptych(*command)
    assert result.code == 130
    assert "128 added, 0 already there, 0 refused" in result.out
    assert "what was added is kept" in result.err
    monkeypatch.undo()
    assert check(directory, scorer, set()) == 128
