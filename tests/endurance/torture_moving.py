"""Kills dedupe while it moves, undoes and empties: `python tests/endurance/torture_moving.py --cycles 1000 --seed 1`.

A child carries out a plan and is killed at a moment drawn from the seed. Then every picture has to be somewhere, whole;
another child undoes or empties and is killed too, as often as the seed says; and in the end all is as it was before, or
of each group the one that was kept is there.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from campaign import CannotError, Tally, campaign, kill_after

from diptych.dedupe.actions import undo_log
from diptych.dedupe.actions.past import Entry
from diptych.dedupe.actions.plan import Plan, Step, carry_out
from diptych.errors import DedupeError
from diptych.pictures.content import picture_id
from diptych.pictures.walk import TRASH

GROUPS = 12
_HELD = re.compile(r"\.(.+)\.[0-9a-f]{32}\.diptych-(?:moving|link)")


class Cycle:
    """Pictures in groups of two, and a plan by which the second of each goes, some with a film that belongs to it."""

    def __init__(
        self, folder: Path, away: Path | None, draw: random.Random, tally: Tally, *, linking: bool = False
    ) -> None:
        self.folder, self.away, self.draw, self.tally = folder, away, draw, tally
        self.before: dict[str, bytes] = {}
        self.steps = []
        target = away or folder / TRASH / "now"
        for number in range(GROUPS):
            picture = ""
            for ending in ("jpg",) if linking or number % 3 else ("jpg", "mov"):
                data = draw.randbytes(draw.choice((10, 5_000, 300_000)))
                id = picture_id(hashlib.sha256(data).hexdigest())
                kept, going = (folder / f"{number:02d}{more}.{ending}" for more in ("", " again"))
                for path in (kept, going):
                    path.write_bytes(data)
                    self.before[path.name] = data
                entry = Entry(str(going), str(target / going.name), id, str(kept), id, picture)
                self.steps.append(Step(entry, folder, len(data), frozenset({picture} - {""})))
                picture = str(going)
        self.journal = target / "journal.jsonl"
        act = "move" if away else "hardlink" if linking else "delete"
        self.plan = Plan(act, self.steps, [away or folder / TRASH], [folder], self.journal)

    def go(self, act: Callable[[], object], longest: float) -> None:
        """Do it in a child that is killed after a while."""
        if kill_after(self.draw.uniform(0, longest), act):
            self.tally.false.append("the child ended with an error")

    def reckon(self, each: int) -> None:
        """Of each content at least so many files are whole somewhere; nothing else has its name."""
        files = {(found.stat().st_dev, found.stat().st_ino): found for found in self._files()}
        whole = Counter(path.read_bytes() for path in files.values() if not path.name.endswith(".diptych-part"))
        for name, data in self.before.items():
            if whole[data] < each:
                self.tally.lost.append(f"{name}: {whole[data]} of {each}")
        for path in files.values():
            name = (_HELD.fullmatch(path.name) or [path.name, path.name])[1]
            if name in self.before and path.read_bytes() != self.before[name]:
                self.tally.false.append(f"{path} has other bytes")

    def moved(self) -> int:
        """How many are at their new place."""
        return sum(Path(step.entry.target).exists() for step in self.steps)

    def undo(self) -> undo_log.Outcome:
        """Undo what the journal says, if it was begun."""
        try:
            return undo_log.undo_moves(undo_log.read_journal(self.journal))
        except DedupeError:
            if self.moved():
                self.tally.false.append("pictures were moved and there is no journal")
            return undo_log.Outcome()

    def settle(self, left: list[dict[str, str]], wanted: dict[str, bytes]) -> None:
        """All is as it should be at the end, and nothing else is there."""
        self.tally.false += [f"left: {one}" for one in left]
        found = {path.name: path.read_bytes() for path in self._files()}
        if found != wanted:
            differ = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
            self.tally.false.append(f"at the end {differ[:4]} are too many, missing or other files")

    def apart(self) -> None:
        """No two names are of one file."""
        if shared := [path.name for path in self._files() if path.stat().st_nlink > 1]:
            self.tally.false.append(f"at the end {shared[:4]} are links")

    def _files(self) -> list[Path]:
        places = [self.folder, *([self.away] if self.away else [])]
        return [path for place in places for path in place.rglob("*") if path.is_file() and path != self.journal]


def kill_moving(cycle: Cycle, seconds: float) -> None:
    """kill -9 while pictures are moved, then while they are put back, until they are."""
    cycle.go(lambda: carry_out(cycle.plan), seconds)
    cycle.tally.acknowledged += cycle.moved()
    cycle.reckon(2)
    while cycle.draw.random() < 0.6:
        cycle.go(cycle.undo, seconds)
        cycle.reckon(2)
    cycle.settle(cycle.undo().left, cycle.before)
    cycle.apart()


def kill_emptying(cycle: Cycle, seconds: float) -> None:
    """kill -9 while a trash folder is emptied, which some pictures that were kept are gone from meanwhile."""
    carry_out(cycle.plan)
    cycle.tally.acknowledged += cycle.moved()
    gone = cycle.draw.sample([step for step in cycle.steps if not step.owners], 2)
    for step in gone:
        Path(step.entry.keeper).unlink()
    left_alone = {step.entry.source for step in gone}
    staying = [step for step in cycle.steps if {step.entry.source, step.entry.belongs_to} & left_alone]
    past = undo_log.read_journal(cycle.journal)
    cycle.go(lambda: undo_log.empty_trash(past), seconds)
    cycle.reckon(1)
    left = undo_log.empty_trash(past).left
    if sorted(one["path"] for one in left) != sorted(step.entry.target for step in staying):
        cycle.tally.false.append(f"left {left}")
    last = {Path(step.entry.target).name: cycle.before[Path(step.entry.target).name] for step in staying}
    kept = {name: cycle.before[name] for name in cycle.before if "again" not in name}
    cycle.settle([], {name: data for name, data in kept.items() if (cycle.folder / name).exists()} | last)


def kill_emptying_links(cycle: Cycle, seconds: float) -> None:
    """kill -9 while links take the place of copies, then while the trash is emptied, of which some were edited in place
    or saved anew meanwhile, or lost the one that was kept; then all is undone that can be.
    """
    cycle.go(lambda: carry_out(cycle.plan), seconds)
    cycle.reckon(2)
    cut = {step.entry.target for step in cycle.steps if not _linked(step)}
    linked = [step for step in cycle.steps if step.entry.target not in cut]
    cycle.tally.acknowledged += len(linked)
    edited, saved, gone, *_ = [*cycle.draw.sample(linked, min(3, len(linked))), None, None, None]
    wanted = dict(cycle.before)
    if edited:  # a link shares what is written in its place with the picture that was kept
        Path(edited.entry.source).write_bytes(b"edited")
        wanted[Path(edited.entry.keeper).name] = b"edited"
    if saved:
        Path(saved.entry.source).unlink()
        Path(saved.entry.source).write_bytes(b"saved anew")
        wanted[Path(saved.entry.source).name] = b"saved anew"
    if gone:
        Path(gone.entry.keeper).unlink()
        del wanted[Path(gone.entry.keeper).name]
    try:
        past = undo_log.read_journal(cycle.journal)
    except DedupeError:
        cycle.settle([], cycle.before)
        return
    cycle.go(lambda: undo_log.empty_trash(past), seconds)
    left = {one["path"] for one in undo_log.empty_trash(past).left}
    if any(Path(step.entry.target).exists() for step in linked if step not in (edited, saved)):
        cycle.tally.false.append("what links took the place of was not emptied")
    if left - cut != {step.entry.target for step in linked if Path(step.entry.target).exists()}:
        cycle.tally.false.append(f"left {left}")
    left = undo_log.undo_moves(past).left
    found = {path.name: path.read_bytes() for path in cycle.folder.iterdir() if path.is_file()}
    if found != wanted:
        cycle.tally.lost.append(f"after emptying and undoing {sorted(set(found) ^ set(wanted))[:4]}, {left}")


def _linked(step: Step) -> bool:
    """True if a step is done, its link is in place and nothing of it is left."""
    source = Path(step.entry.source)
    beside = any(_HELD.fullmatch(path.name) for path in source.parent.iterdir() if source.name in path.name)
    return Path(step.entry.target).exists() and source.exists() and source.samefile(step.entry.keeper) and not beside


FAULTS = {  # whether pictures are moved to a folder of their own, or into the trash; those of copies to another disk
    "kill-moves": (True, kill_moving),
    "kill-copies": (True, kill_moving),
    "kill-trash": (False, kill_moving),
    "kill-links": (False, kill_moving),
    "kill-emptying": (False, kill_emptying),
    "kill-emptying-links": (False, kill_emptying_links),
}


def torture(fault: str, cycles: int, seed: int, elsewhere: Path) -> Tally:
    """Put fresh folders through a fault so many times. Raises CannotError where there is no other file system."""
    tally, draw = Tally(), random.Random(seed)
    seconds = 0.0
    for number in range(-1, cycles):
        with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory(dir=elsewhere) as there:
            moves, meet = FAULTS[fault]
            folder = Path(here, "photos")
            folder.mkdir()
            away = Path(there if fault == "kill-copies" else here, "away") if moves else None
            if fault == "kill-copies" and Path(there).stat().st_dev == folder.stat().st_dev:
                raise CannotError(f"{elsewhere} is no other file system; name one with --elsewhere")
            linking = fault.endswith("links")
            if number < 0:  # one that nothing happens to, to see how long it takes
                began = time.monotonic()
                carry_out(Cycle(folder, away, draw, Tally(), linking=linking).plan)
                seconds = time.monotonic() - began
                continue
            meet(Cycle(folder, away, draw, tally, linking=linking), 1.1 * seconds)
            tally.cycles += 1
        if not tally.survived:
            break
    return tally


def main() -> int:
    """Run what the command line asks for: 0 if nothing was lost, 1 if something was, 3 if a fault cannot be made."""
    parser = argparse.ArgumentParser(description="Kill dedupe while it moves files.")
    here = Path(tempfile.gettempdir()).stat().st_dev
    others = [path for path in map(Path, ("/dev/shm", "/var/tmp")) if path.is_dir() and path.stat().st_dev != here]
    other = next(iter(others), Path("/dev/shm"))
    parser.add_argument("--elsewhere", type=Path, default=other, help="a folder of another file system")

    return campaign(parser, FAULTS, lambda fault, args: torture(fault, args.cycles, args.seed, args.elsewhere))


if __name__ == "__main__":
    sys.exit(main())
