"""kill -9 in the middle of adding: nothing acknowledged is lost, and the next start repairs the cache by itself."""

import contextlib
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diptych import Collection
from diptych.errors import StoreError
from diptych.store.index.cache import CACHE
from diptych.store.sqlite.database import Store

PICTURES = 200

ADD_AND_SAY = """
import sys
from pathlib import Path
from diptych import Collection, Scorer
from diptych.collection.ingest import add_in_batches
scorer = Scorer.load(sys.argv[1], provider="cpu", threads=1)
with Collection.open(sys.argv[2], scorer, create=True) as collection:
    for added in add_in_batches(collection, sorted(Path(sys.argv[3]).glob("*.png")), on_error=print):
        print(added.id, flush=True)
"""


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


def test_kill_9_loses_no_picture_that_was_acknowledged(environment, artifact, scorer, many, directory, caplog):
    lines_before_the_kill = (1, 100)
    for lines in lines_before_the_kill:
        process = subprocess.Popen(
            [sys.executable, "-c", ADD_AND_SAY, str(artifact), str(directory), str(many)],
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert process.stdout is not None
        acknowledged = {process.stdout.readline().strip() for _ in range(lines)}
        process.kill()
        acknowledged |= set(process.stdout.read().split())
        process.stdout.close()
        process.wait()
        assert check(directory, scorer, {id for id in acknowledged if len(id) == 32}) >= lines
        # The next round begins with a cache that is damaged too.
        data = bytearray((directory / CACHE).read_bytes())
        data[len(data) // 3] ^= 1
        (directory / CACHE).write_bytes(data)
    with caplog.at_level(logging.WARNING):
        check(directory, scorer, set())
    assert "checksum is wrong" in caplog.text


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
