"""kill -9 at random moments of a run: the collection is whole, and the next run ends as an undisturbed one does."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from folders import counts, put

from diptych import Collection

# One process imports everything and forks those that are killed. It says how many were, before one came to its end.
# How long a run is left alone is a share of what an undisturbed one takes, over a collection of its own: no machine is
# so fast that all is done before the first kill.
PROGRAM = """
import os, random, signal, sys, time
import faiss, onnxruntime
import diptych.collection.ingest
from diptych import Collection, Scorer
from diptych.collection.sync.seen_files import SeenFiles
from diptych.collection.sync.run import Run
diptych.collection.ingest.BATCH = 3
model, store, timed, folder, seed = sys.argv[1:]
chance, kills = random.Random(int(seed)), 0

def begin(store):
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        scorer = Scorer.load(model, provider="cpu", threads=1)
        with Collection.open(store, scorer) as collection, SeenFiles(collection.directory, scorer.limits) as ledger:
            assert collection.verify().healthy
            os.write(theirs, b"begun")
            Run(collection, ledger, [folder]).go()
        os._exit(0)
    os.close(theirs)
    assert os.read(ours, 5) == b"begun"
    os.close(ours)
    return child

child, began = begin(timed), time.monotonic()
assert os.waitpid(child, 0)[1] == 0
whole = time.monotonic() - began
while True:
    child = begin(store)
    time.sleep(chance.uniform(0, 0.1 * whole * (1 + kills)))
    os.kill(child, signal.SIGKILL)
    if os.waitpid(child, 0)[1] == 0:
        break
    kills += 1
print(kills)
"""


def change(folder: Path, photo_bytes) -> None:
    """Of 60 pictures: ten gone, ten moved, ten changed, ten with a copy, one no picture any more, and twenty new."""
    for number in range(10):
        (folder / f"{number:02d}.png").unlink()
        (folder / f"{10 + number}.png").rename(folder / f"moved-{number}.png")
        put(folder / f"{20 + number}.png", photo_bytes(500 + number, (24, 24), "PNG"))
        shutil.copy2(folder / f"{30 + number}.png", folder / f"copy-{number}.png")
        (folder / f"{30 + number}.png").unlink()
    put(folder / "40.png", b"a text")
    for number in range(20):
        put(folder / f"new-{number}.png", photo_bytes(600 + number, (24, 24), "PNG"))


def state(store: Path, scorer) -> dict:
    """All there is to say about the pictures, with the index and every checksum looked at."""
    with Collection.open(store, scorer) as collection:
        assert collection.verify().healthy
        records = collection.list(1000)
        assert len(collection.index) == len(records)
    return {record.id: (record.path, record.metadata) for record in records}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 4))])
def test_kill_9_at_any_moment_ends_where_an_undisturbed_run_does(
    seed, sync, tmp_path, store, artifact, scorer, photo_bytes, environment
):
    folder = tmp_path / "photos"
    for number in range(60):
        put(folder / f"{number:02d}.png", photo_bytes(number, (24, 24), "PNG"))
    with Collection.open(store, scorer, create=True) as collection:
        collection.add(folder / "15.png", metadata={"kept": True})
    sync(folder)
    change(folder, photo_bytes)
    for copy in ("undisturbed", "timed"):
        shutil.copytree(store, tmp_path / copy)
    command = [sys.executable, "-c", PROGRAM, artifact, store, tmp_path / "timed", folder, seed]
    done = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
    result = sync(folder)
    assert counts(result) == {"unchanged": 69, "refused": 1}
    found = state(store, scorer)
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "undisturbed", store)
    assert counts(sync(folder)) == {"new": 20, "changed": 10, "moved": 20, "removed": 11, "refused": 1, "unchanged": 19}
    assert found == state(store, scorer)
    assert (f"{folder}/moved-5.png", {"kept": True}) in found.values()
