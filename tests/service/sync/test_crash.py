"""kill -9 at random moments of a run: the collection is whole, and the next run ends as an undisturbed one does."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from folders import counts, held, put

from diptych import Collection

PROGRAM = """
import sys
import diptych.intake
from diptych.cli import main
from diptych.sync.run import Run
diptych.intake.BATCH = 3
go = Run.go
def told(self, **callbacks):
    print("begun", flush=True)
    return go(self, **callbacks)
Run.go = told
sys.exit(main())
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


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
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
    shutil.copytree(store, tmp_path / "undisturbed")
    words = ["--model", artifact, "--threads", 1, "--quiet"]
    command = ["index", "sync", folder, "--store", store, *words]
    chance, kills = random.Random(seed), 0
    while True:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *map(str, command)], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout is not None
        with process.stdout as said:
            said.readline()
            time.sleep(chance.uniform(0, 0.3 * (1 + kills)))
            process.kill()
            rest = said.read()
        if process.wait() >= 0:
            break
        kills += 1
        state(store, scorer)
        assert kills < 50, rest
    assert kills
    mended = sync(folder)
    assert mended.json["unchanged"] == mended.json["total"] == 70 - 1
    undisturbed = tmp_path / "undisturbed"
    command[command.index(store)] = undisturbed
    subprocess.run([sys.executable, "-c", PROGRAM, *map(str, command)], env=environment, check=False)
    assert state(store, scorer) == state(undisturbed, scorer)
    assert ({"kept": True}) in [metadata for _, metadata in state(store, scorer).values()]
    assert counts(mended) == {"unchanged": 69, "refused": 1}
    assert f"{folder}/moved-5.png" in held(store).values()
