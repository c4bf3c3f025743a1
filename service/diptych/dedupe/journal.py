"""The journal of what was moved: written before each act, and read to undo it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from diptych.dedupe.moving import move, part_of
from diptych.durable import sync_folder
from diptych.errors import DedupeError
from diptych.walk import TRASH

_FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """A file that was to be moved: from where, to where, the id of its content."""

    source: str
    target: str
    id: str


@dataclass
class Outcome:
    """How many files were acted on, how many needed nothing, and which were left alone with what reason."""

    done: int = 0
    already: int = 0
    left: list[dict[str, str]] = field(default_factory=list)

    def leave(self, path: str, reason: str) -> None:
        """Note that a file was left alone."""
        self.left.append({"path": path, "reason": reason})


class Journal:
    """A file of JSON lines, each of which is on the disk when `note` returns: `with Journal.begin(path, ...) as j:`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    @classmethod
    def begin(cls, path: Path, act: str, folders: Sequence[Path]) -> Journal:
        """Make a new journal of an act, "move" or "delete", into these folders.

        Raises DedupeError if it cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            journal = cls(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644))
            began = datetime.now(UTC).isoformat(timespec="seconds")
            journal._write({"journal": _FORMAT, "act": act, "began": began, "folders": list(map(str, folders))})
            sync_folder(path.parent)
        except OSError as error:
            raise DedupeError(f"the journal {path} cannot be written: {error.strerror}; nothing was moved") from None
        return journal

    def note(self, entry: Entry) -> None:
        """Write down what is about to be done. Raises OSError if the disk does not take it; then do not do it."""
        self._write(asdict(entry))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: dict[str, Any]) -> None:
        data = (json.dumps(line) + "\n").encode()
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)


@dataclass(frozen=True)
class Past:
    """What a journal says: the act, the folders into which files went, and the files in order."""

    act: str
    folders: list[Path]
    entries: list[Entry]


def read(path: Path) -> Past:
    """What is in a journal. A last line that was cut short was never acted on and does not count.

    Raises DedupeError for what is no journal.
    """
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
        first, *lines = [json.loads(line) for line in whole.splitlines()]
        if first["journal"] != _FORMAT:
            raise DedupeError(f"{path} is a journal of format {first['journal']}; use the Diptych that wrote it")
        return Past(first["act"], list(map(Path, first["folders"])), [Entry(**line) for line in lines])
    except OSError as error:
        raise DedupeError(f"the journal {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DedupeError(f"{path} is no journal of `diptych dedupe` ({error}); name the one that it told") from None


def undo(past: Past, tick: Callable[[], object] = lambda: None) -> Outcome:
    """Put every file back where it was, the last one first, over no other file. Doing it twice does no harm."""
    outcome = Outcome()
    for entry in reversed(past.entries):
        source, target = Path(entry.source), Path(entry.target)
        try:
            part_of(target).unlink(missing_ok=True)
            part_of(source).unlink(missing_ok=True)
            _put_back(source, target, outcome)
            _clear(target.parent, past.folders)
        except OSError as error:
            outcome.leave(entry.target, f"it cannot be put back to {source}: {error.strerror}")
        tick()
    return outcome


def empty(past: Past, tick: Callable[[], object] = lambda: None) -> Outcome:
    """Delete for good what a journal of "delete" put aside. Raises DedupeError for a journal of something else."""
    if past.act != "delete" or any(TRASH not in Path(entry.target).parts for entry in past.entries):
        raise DedupeError("only what `--delete` put aside can be emptied; the journal is of files that were moved")
    outcome = Outcome()
    for entry in past.entries:
        target = Path(entry.target)
        try:
            if not target.exists():
                outcome.already += 1
            elif not Path(entry.source).exists() or not target.samefile(entry.source):
                target.unlink()
                outcome.done += 1
            else:
                outcome.leave(entry.target, f"it is still {entry.source} too: the move was cut short; undo it first")
            _clear(target.parent, past.folders)
        except OSError as error:
            outcome.leave(entry.target, f"it cannot be deleted: {error.strerror}")
        tick()
    return outcome


def _put_back(source: Path, target: Path, outcome: Outcome) -> None:
    there, moved = source.exists(), target.exists()
    if moved and not there:
        move(target, source)
        outcome.done += 1
    elif there and moved:
        # Killed between the two steps of a move: both are the same file, or copies of each other.
        if source.samefile(target) or source.read_bytes() == target.read_bytes():
            target.unlink()
            outcome.already += 1
        else:
            outcome.leave(str(target), f"there is another file at {source} by now; move that away first")
    elif there:
        outcome.already += 1
    else:
        outcome.leave(str(source), f"it is neither there nor at {target}")


def _clear(folder: Path, within: Sequence[Path]) -> None:
    """Remove a folder that is empty by now, and those above it, but none outside the folders that files went into."""
    while any(folder.is_relative_to(top) for top in within):
        try:
            folder.rmdir()
        except OSError:  # in use
            return
        folder = folder.parent
