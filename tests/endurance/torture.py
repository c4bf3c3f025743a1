"""Tortures a collection and counts what that did: `python tests/endurance/torture.py kill-adds --cycles 100 --seed 1`.

A child adds, removes, saves, rebuilds and searches, and says before and after each step what it is about to do and what
was acknowledged. It meets a fault and is killed at a moment drawn from the seed; then the parent opens the collection,
which repairs itself, and settles the account: see `Torture.reckon`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from campaign import CannotError, Tally, campaign
from torture_account import WARM, Child, Torture
from torture_work import EVERYTHING, NOBODY, copies, draw, give_back, id_of

from diptych import Collection, Scorer
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.backup import back_up_collection
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import CACHE, MANIFEST
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.errors import DiptychError
from diptych_runtime.models import find_artifact

MIXED = {"add": 8, "remove": 3, "save": 1, "search": 1}


def kill(steps: dict[str, int], longest: float = 0.25) -> Callable[[Torture], None]:
    """kill -9 during these steps, up to so many seconds after the collection was opened, or while it opens."""

    def cycle(torture: Torture) -> None:
        with torture.child(torture.job(steps)) as child:
            child.hear_until("ready")
            if torture.random.random() < 0.9:
                child.hear_until("open")
            child.hear_for(torture.random.uniform(0, longest))
        torture.reckon()

    return cycle


def kill_backups(torture: Torture) -> None:
    """kill -9 while backups are made: each is whole, or is no collection."""
    kill({"add": 2, "remove": 1, "backup": 3})(torture)
    for copy in sorted(copies(torture.directory).glob("*")):
        torture.reckon_copy(copy)
    shutil.rmtree(copies(torture.directory), ignore_errors=True)


def kill_restores(torture: Torture) -> None:
    """kill -9 while a backup takes the place of a newer state: the collection is wholly the one or the other."""
    torture.fill()
    older, copied = list(torture.held), copies(torture.directory) / "copy"
    with Store.open(torture.directory) as store:
        back_up_collection(store, copied)
    with torture.child(torture.job({"add": 3, "remove": 2})) as child:
        child.hear_until("open")
        child.hear_for(torture.random.uniform(0.05, 0.2))
    torture.reckon()
    torture.tally.cycles -= 1  # the restore is what counts
    words, theirs = WARM.Pipe(duplex=False)
    process = WARM.Process(target=give_back, args=(copied, torture.directory, theirs), daemon=True)
    process.start()
    theirs.close()
    if torture.random.random() < 0.9:
        words.recv()  # it has begun
    time.sleep(torture.random.uniform(0, 0.06) * torture.slower)
    process.kill()
    done = False
    with contextlib.suppress(EOFError):
        while True:
            done = words.recv() == "done"
    process.join()
    torture.tally.acknowledged += done
    with SqliteBackend.open(torture.directory) as store:
        ids = set(store.ids())
    if done or ids == set(map(id_of, older)):
        torture.held = older
    torture.reckon()
    shutil.rmtree(copies(torture.directory))


def kill_repairs(torture: Torture) -> None:
    """kill -9 while a damaged cache is made again."""
    torture.fill()
    damage(torture, torture.directory / CACHE)
    with torture.child(torture.job(MIXED)) as child:
        child.hear_until("ready")
        child.hear_for(torture.random.uniform(0, 0.02))
    torture.reckon()


def half_written(torture: Torture) -> None:
    """kill -9, and then a file that ends in the middle: the cache, its manifest, or the log of the database behind its
    last transaction; or a leftover of a save.
    """
    with torture.child(torture.job(MIXED)) as child:
        child.hear_until("open")
        child.hear_for(torture.random.uniform(0, 0.15))
    folder, choice = torture.directory, torture.random.randrange(5)
    if choice < 3:
        path = folder / (MANIFEST, CACHE, MANIFEST)[choice]
        if path.exists():
            os.truncate(path, torture.random.randrange(path.stat().st_size))
    elif choice == 3:
        with (folder / f"{DATABASE}-wal").open("ab") as log:
            log.write(torture.random.randbytes(torture.random.randrange(1, 9000)))
    else:
        (folder / f".{CACHE}.tmp").write_bytes(torture.random.randbytes(5000))
    torture.reckon()


def flip_cached(name: str) -> Callable[[Torture], None]:
    """Flipped bits in the cache or its manifest, while the database is ahead of them."""

    def cycle(torture: Torture) -> None:
        torture.fill()
        with torture.child(torture.job({"add": 1, "remove": 1})) as child:
            child.hear_until("open")
            child.hear_for(torture.random.uniform(0, 0.05))
        path = torture.directory / name
        where = torture.tally.cycles % 16  # every sixteenth of the file in turn
        size = path.stat().st_size
        flip(torture, path, size * where // 16, max(size * (where + 1) // 16, 1))
        torture.reckon()

    return cycle


def flip_database(torture: Torture) -> None:
    """Damage in the database of a closed collection: a bit, sixteen bytes or a page."""
    torture.fill()
    with Collection.open(torture.directory, torture.scorer) as collection:
        before = {record.id: record for record in collection.list(EVERYTHING)}
        found = collection.search(draw(0), top=EVERYTHING, candidates=EVERYTHING)
        scores = {match.id: match.raw_score for match in found.matches}
    with tempfile.TemporaryDirectory(dir=torture.directory.parent) as scratch:
        copied = Path(shutil.copytree(torture.directory, Path(scratch, "copy")))
        damage(torture, copied / DATABASE)
        if torture.random.random() < 0.5:
            (copied / MANIFEST).unlink()  # so that the index comes from the damaged database
        torture.consult(copied, before, scores)


def flip_model(torture: Torture) -> None:
    """Flipped bits in the model's graphs and manifest: it is refused, or does the same as before."""
    source = find_artifact(torture.model)
    torture.tally.cycles += 1
    with tempfile.TemporaryDirectory() as scratch:
        copied = Path(shutil.copytree(source, Path(scratch, "copy")))
        flip(torture, torture.random.choice([*sorted(copied.glob("p*.onnx")), copied / "manifest.json"]))
        try:
            scorer = Scorer.load(str(copied), provider="cpu", threads=1)
            pictures = [draw(1), draw(2)]
            panels, pair = scorer.panels(pictures), scorer.predict([(pictures[0], pictures[1])])
        except DiptychError:
            torture.tally.noticed += 1
            return
        except Exception as error:
            torture.tally.wrong.append(f"{type(error).__name__}: {error}")
            return
    expected = torture.scorer.panels(pictures)
    if (
        panels.tokens.tobytes() != expected.tokens.tobytes()
        or scorer.runtime.revision != torture.scorer.runtime.revision
    ):
        torture.tally.false.append("a damaged model gives other features, or goes by another name")
    if pair.tolist() != torture.scorer.predict([(pictures[0], pictures[1])]).tolist():
        torture.tally.false.append("a damaged model gives other scores")


def full_disk(torture: Torture) -> None:
    """A disk that fills up while there is work, and is freed again while the child lives on; then kill -9."""
    ballast = torture.directory.parent / "ballast"
    disk = os.statvfs(torture.directory.parent)
    room = torture.random.randrange(100) * 1024
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        file.write(bytes(max(0, disk.f_bavail * disk.f_frsize - room)))
    with torture.child(torture.job(MIXED)) as child:
        child.hear_until("ready")
        for _ in range(torture.random.randrange(40)):
            child.hear(0.5)
        child.hear_until("failed", 1)
        if not child.process.is_alive():
            torture.tally.wrong.append("the child ended")
        ballast.unlink()
        check_recovery(torture, child)
    torture.reckon()


def file_limit(torture: Torture) -> None:
    """Files that cannot grow (RLIMIT_FSIZE), which the parent lifts again while the child lives on; then kill -9."""
    largest = max((path.stat().st_size for path in torture.directory.glob("*")), default=0)
    limit = largest + torture.random.randrange(-20_000, 200_000)
    with torture.child(torture.job(MIXED, file_limit=max(limit, 0))) as child:
        child.hear_until("ready")
        child.hear_for(torture.random.uniform(0.05, 0.3))
        assert child.process.pid is not None
        resource.prlimit(child.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        check_recovery(torture, child)
    torture.reckon()


def check_recovery(torture: Torture, child: Child) -> None:
    """The same process goes on working when it is allowed to."""
    if not child.hear_until("done", 20 * torture.slower):
        torture.tally.wrong.append(f"no step was acknowledged after the fault was gone; last {child.said[-3:]}")


def read_only(torture: Torture) -> None:
    """A folder that becomes read-only while there is work, or was so before; then kill -9."""
    folder = torture.directory
    torture.fill(10)
    before = torture.random.random() < 0.5
    permit(folder, writing=not before)
    with torture.child(torture.job(MIXED, as_nobody=True, once=before)) as child:
        child.hear_until("refused" if before else "open")
        permit(folder, writing=False)
        child.hear_for(torture.random.uniform(0, 0.2))
        if before and "open" in child.said:
            torture.tally.wrong.append("a folder without leave to write was opened for writing")
    permit(folder, writing=True)
    torture.reckon()


def permit(folder: Path, *, writing: bool) -> None:
    """Let the user nobody write in a folder, or no more; the child runs as that user if we are root."""
    # The folder first: once it is closed, its files keep their names while they are listed.
    for listed in ([folder], folder.iterdir()):
        for path in listed:
            if os.geteuid() == 0:
                os.chown(path, NOBODY, NOBODY)
            path.chmod((0o755 if path.is_dir() else 0o644) if writing else (0o555 if path.is_dir() else 0o444))


def jumping_clock(torture: Torture) -> None:
    """A clock that shows another time at every look, files from the past and the future; then kill -9."""
    with torture.child(torture.job(MIXED, jumping_clock=True)) as child:
        child.hear_until("open")
        child.hear_for(torture.random.uniform(0, 0.2))
    for path in torture.directory.iterdir():
        os.utime(path, (torture.random.randrange(2**33), torture.random.randrange(2**33)))
    torture.reckon()


def second_writer(torture: Torture) -> None:
    """Two processes want to write: the second is refused, and gets in when the first is killed."""
    with torture.child(torture.job(MIXED)) as first:
        first.hear_until("open")
        with torture.child(torture.job(MIXED)) as second:
            if not second.hear_until("refused"):
                torture.tally.wrong.append("a second writer got in")
            first.hear_for(torture.random.uniform(0, 0.1))
            first.end()
            if not second.hear_until("open"):
                torture.tally.wrong.append("the second writer did not get in when the first was gone")
            second.hear_for(torture.random.uniform(0, 0.1))
    torture.reckon()


def without_lock(torture: Torture) -> None:
    """Two processes write at the same time, because somebody deleted the lock."""
    torture.ordered = False
    steps = {"add": 8, "remove": 3, "save": 2}
    with torture.child(torture.job(steps)) as first:
        first.hear_until("open")
        (torture.directory / "writer.lock").unlink()
        with torture.child(torture.job(steps, held=())) as second:  # each removes only what is its own
            second.hear_until("open")
            for _ in range(5):
                first.hear_for(torture.random.uniform(0, 0.02))
                second.hear_for(torture.random.uniform(0, 0.02))
    torture.reckon()


def damage(torture: Torture, path: Path) -> None:
    """A flipped bit, sixteen other bytes or a page of zeros, somewhere in a file."""
    kind, size = torture.random.randrange(4), path.stat().st_size
    if kind < 2:
        flip(torture, path)
        return
    data = torture.random.randbytes(16) if kind == 2 else bytes(4096)
    with path.open("r+b") as file:
        file.seek(torture.random.randrange(size) // len(data) * len(data))
        file.write(data[: size - file.tell()])


def flip(torture: Torture, path: Path, start: int = 0, stop: int | None = None) -> None:
    """One flipped bit somewhere in a part of a file."""
    data = bytearray(path.read_bytes())
    data[torture.random.randrange(start, stop or len(data))] ^= 1 << torture.random.randrange(8)
    path.write_bytes(data)


FAULTS: dict[str, Callable[[Torture], None]] = {
    "kill-adds": kill({"add": 1}),
    "kill-removes": kill({"add": 3, "remove": 2, "search": 1}),
    "kill-labels": kill({"label": 6, "add": 1, "remove": 1}),
    "kill-saves": kill({"add": 1, "remove": 1, "save": 4}),
    "kill-rebuilds": kill({"add": 2, "remove": 1, "rebuild": 2}, 0.5),
    "kill-backups": kill_backups,
    "kill-restores": kill_restores,
    "kill-repairs": kill_repairs,
    "half-written": half_written,
    "full-disk": full_disk,
    "file-limit": file_limit,
    "flip-cache": flip_cached(CACHE),
    "flip-manifest": flip_cached(MANIFEST),
    "flip-database": flip_database,
    "flip-model": flip_model,
    "clock": jumping_clock,
    "read-only": read_only,
    "second-writer": second_writer,
    "without-lock": without_lock,
}


def torture(fault: str, model: str, cycles: int, seed: int, slower: float = 1.0) -> Tally:
    """Put a fresh collection through a fault so many times."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-")))
        place.chmod(0o755)
        if fault == "full-disk":
            stack.enter_context(small_disk(place))
        victim = Torture(place / "store", model, fault, seed, slower)
        for _ in range(cycles):
            FAULTS[fault](victim)
            if not victim.tally.survived:
                break
        return victim.tally


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """A file system of 4 MB in memory, mounted on a folder."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, text=True)
    if mount.returncode:
        raise CannotError(f"no small disk can be mounted: {mount.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def main() -> int:
    """Run what the command line asks for: 0 if all was survived, 1 if not, 3 if a fault cannot be made here."""
    parser = argparse.ArgumentParser(description="Torture a collection.")
    parser.add_argument(
        "--model", default="photo-small", help="name or directory of an artifact (default: photo-small)"
    )
    parser.add_argument(
        "--slower", type=float, default=1.0, help="kill so many times as late, on a busy machine (default: 1)"
    )

    def run(fault: str, args: argparse.Namespace) -> Tally:
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # or else the fork server does not find what to preload
        return torture(fault, args.model, args.cycles, args.seed, args.slower)

    return campaign(parser, FAULTS, run)


if __name__ == "__main__":
    sys.exit(main())
