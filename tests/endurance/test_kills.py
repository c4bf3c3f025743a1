"""kill -9 at random moments: of a sync, of a batch, and of collections that are made and removed."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from folders import counts, put

from diptych import Collection
from diptych.collection.registry import Collections

DEPENDS_ON = (
    "service/diptych/batch",
    "service/diptych/collection",
    "service/diptych/pictures/walk.py",
    "service/diptych/store",
    "export/diptych_runtime/atomic.py",
)

MAKE_AND_REMOVE = """
import sys
from diptych import Scorer
from diptych.collection.registry import Collections
picture = open(sys.argv[3], "rb").read()
with Collections.open(sys.argv[2], Scorer.load(sys.argv[1], provider="cpu", threads=1)) as collections:
    number = int(sys.argv[4])
    print("begin", flush=True)
    while True:
        name = f"c{number}"
        number += 1
        collections.create(name)
        print("made", name, 0, flush=True)
        with collections.borrow(name) as collection:
            collection.add(picture, keep_originals=True)
        print("made", name, 1, flush=True)
        if number % 3:
            print("leaves", name, 0, flush=True)
            collections.remove(name, 1)
            print("gone", name, 0, flush=True)
"""


def test_every_collection_is_whole_or_gone(artifact, scorer, environment, tmp_path, photo_bytes):
    rng, kills, root = random.Random(7), 3, tmp_path / "root"
    (tmp_path / "picture.jpg").write_bytes(photo_bytes(1))
    known: dict[str, tuple[str, int]] = {}
    for begin in range(0, 1000 * kills, 1000):
        given = (artifact, root, tmp_path / "picture.jpg", begin)
        command = [sys.executable, "-c", MAKE_AND_REMOVE, *map(str, given)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begin\n"
            # By what it says and not by the clock, so that it is in the middle on a busy machine too.
            said = [process.stdout.readline() for _ in range(rng.randint(1, 8))]
            time.sleep(rng.uniform(0, 0.1))
            process.kill()
            for line in [*said, *process.stdout]:
                if line.endswith("\n"):  # and not the one in whose middle it was killed
                    state, name, pictures = line.split()
                    known[name] = (state, int(pictures))
        with Collections.open(root, scorer) as collections:
            assert collections.list_faults() == {}
            there = {one.name: one.pictures for one in collections.summaries()}
        for name, (state, pictures) in known.items():
            if state == "made":
                assert there[name] in (pictures, 1), name
            elif state == "gone":
                assert name not in there
            else:
                assert there.get(name, 1) == 1
        assert sorted(path.name for path in root.iterdir()) == sorted([*there, "service.lock"])
    assert len(known) >= kills


# One process imports everything and forks those that are killed. It says how many were, before one came to its end.
# How long a run is left alone is a share of what an undisturbed one takes, over a collection of its own: no machine is
# so fast that all is done before the first kill.
SYNC = """
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


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_sync_ends_where_an_undisturbed_run_does(seed, diptych, tmp_path, artifact, scorer, photo_bytes, environment):
    def sync() -> Any:
        return diptych("index", "sync", folder, "--store", store, "--model", artifact, "--threads", 1, "--json")

    folder, store = tmp_path / "photos", tmp_path / "store"
    for number in range(60):
        put(folder / f"{number:02d}.png", photo_bytes(number, (24, 24), "PNG"))
    with Collection.open(store, scorer, create=True) as collection:
        collection.add(folder / "15.png", metadata={"kept": True})
    sync()
    change(folder, photo_bytes)
    for copy in ("undisturbed", "timed"):
        shutil.copytree(store, tmp_path / copy)
    command = [sys.executable, "-c", SYNC, artifact, store, tmp_path / "timed", folder, seed]
    done = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1
    result = sync()
    assert counts(result) == {"unchanged": 69, "refused": 1}
    found = state(store, scorer)
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "undisturbed", store)
    assert counts(sync()) == {"new": 20, "changed": 10, "moved": 20, "removed": 11, "refused": 1, "unchanged": 19}
    assert found == state(store, scorer)
    assert (f"{folder}/moved-5.png", {"kept": True}) in found.values()


@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_a_batch_that_is_resumed_writes_the_same_bytes(artifact, tmp_path, spawn, diptych, photo_bytes, workers):
    for seed in range(12):
        put(tmp_path / f"{seed}.jpg", photo_bytes(seed))
    table, output, parts = tmp_path / "pairs.csv", tmp_path / "out.csv", tmp_path / "out.csv.parts"
    chance = random.Random(len(workers))
    pairs = "".join(f"{chance.randrange(13)}.jpg,{chance.randrange(12)}.jpg\n" for _ in range(8000))
    table.write_text(f"image_a,image_b\n{pairs}")
    command = ["score", table, "--model", artifact, "--threads", 1, "--quiet", "-o"]
    assert diptych(*command, tmp_path / "whole.csv").code == 1, "one picture is missing"
    command += [output, *workers]
    for _ in range(2):
        process = spawn(*command, "--resume")
        limit = time.monotonic() + 60
        before = set(parts.glob("*.part"))
        while process.poll() is None and set(parts.glob("*.part")) == before and time.monotonic() < limit:
            time.sleep(0.001)
        # A little later, but not so many parts later that a fast machine is done: there are 32.
        end = time.monotonic() + chance.uniform(0, 0.05)
        while time.monotonic() < end and len(set(parts.glob("*.part")) - before) < 3:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run was over before it was killed"
        assert not output.exists()
    refused = diptych(*command)
    assert (refused.code, "go on with --resume" in refused.err) == (1, True)
    resumed = diptych(*command, "--resume", "--json").json
    assert resumed["scored"] < resumed["pairs"] == 8000
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not parts.exists()
