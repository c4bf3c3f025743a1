"""The folders that a journal names, found where they are now: they may have been renamed or copied with the journal,
and others may have come into their places.

A journal in a trash acts in the folder that it lies in, so that one that was copied with its folder acts on the copy
alone. Any other folder has to be the one that the journal means: by its inode, or by the files that must lie in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from diptych.dedupe.actions.move_file import change_of
from diptych.dedupe.actions.past import Entry, Past, is_within
from diptych.errors import DedupeError
from diptych.pictures.walk import TRASH, full_path, real_path
from diptych_runtime.paths import shell_word

Mark = list[int]


def mark_of(folder: Path) -> Mark | None:
    """The marks that a folder keeps when it is renamed: inode, file system and device; None if it is not there."""
    with suppress(OSError):
        status, system = folder.stat(), os.statvfs(folder)
        return [status.st_ino, system.f_fsid, status.st_dev]
    return None


def is_marked(folder: Path, mark: Sequence[int] | None) -> bool:
    """True for the folder with this mark. A disk that is connected again may have another device, but many file systems
    have a number of their own.
    """
    found = mark_of(folder)
    if mark is None or found is None:
        return False
    return found[:2] == list(mark[:2]) if mark[1] else found == list(mark)


@dataclass(frozen=True)
class Written:
    """The place of a journal when it was written, and the marks of its folder and of the roots (None: not known)."""

    at: Path
    folder: Mark | None = None
    roots: list[Mark | None] = field(default_factory=list)


def relocate_folders(past: Past, written: Written, path: Path) -> Past:
    """Find each folder of a journal, which lies at `path` now; those that cannot be found are `unknown`.

    Raises DedupeError for a journal that was copied without its files, while it is still where it was.
    """
    found = _Places(past, written, path)
    if past.act == "move" and found.copied and not found.beside:
        raise DedupeError(f"{path} is a copy of the journal {written.at}, without the files of that; name that one")
    places = found.roots()

    def root_of(place: str) -> int | None:
        inside = [number for number, root in enumerate(past.roots) if Path(place).is_relative_to(root)]
        return max(inside, key=lambda number: len(past.roots[number].parts), default=None)

    def place_now(place: str) -> str:
        if place and (number := root_of(place)) is not None and (root := places[number]) is not None:
            return str(root / Path(place).relative_to(past.roots[number]))
        return place

    def target_now(place: str) -> str:
        if found.went_beside(place):
            return str(found.shift_path(place)) if found.beside else place
        return place_now(place)

    def folder_now(folder: Path) -> Path:
        if found.beside and written.at.is_relative_to(folder) and folder.name == TRASH:
            trash = found.path.parent.parent
            return trash if trash.name == TRASH else found.path.parent
        return Path(target_now(str(folder)))

    return replace(
        past,
        folders=[folder_now(folder) for folder in past.folders],
        roots=[there or root for root, there in zip(past.roots, places, strict=True)],
        entries=[
            replace(
                one,
                source=place_now(one.source),
                target=target_now(one.target),
                keeper=place_now(one.keeper),
                belongs_to=place_now(one.belongs_to),
            )
            for one in past.entries
        ],
        # A copy may have on one disk what lay on two.
        mounted=[
            Path(place_now(str(place))) for place in past.mounted if found.is_original(root_of(str(place)), places)
        ],
        unknown={root: found.reason(root) for root, there in zip(past.roots, places, strict=True) if there is None},
    )


def limit_folders(past: Past, path: Path, named: Sequence[Path]) -> Past:
    """Make the folders `unknown` in which a journal may not act: all but those that the user has `named`.

    Without a name a journal of this user may act wherever it says, and a foreign one in the folder whose trash it lies
    in. That one takes files only from there, or where it lies itself, and never puts any into a hidden folder that was
    not named. Raises DedupeError where nothing is left.
    """
    if not past.foreign and not named:
        return past
    journal = real_path(path) if path.is_symlink() else Path(full_path(path))
    trashed = past.act != "move" and journal.parent.parent.name == TRASH
    own = [journal.parent.parent.parent] if trashed and past.foreign else []
    tops = [*named, *own]
    roots, again = past.roots or list(tops), shell_word(path)
    unknown = {
        root: (
            f"{root}, where it is from, was not named; name it too: diptych dedupe {shell_word(root)} --undo {again}"
            if named and not past.foreign
            else f"{path} is of no run of yours that is known (those of Diptych 0.2 are not), and would change "
            f"files in {root}; if that is right, name this folder too: diptych dedupe {shell_word(root)} --undo {again}"
        )
        for root in roots
        if not any(is_within(root, top, hidden=not past.foreign) for top in tops)
    }
    if not roots:
        raise DedupeError(
            f"{path} does not say from which folders its files are; name them: diptych dedupe FOLDER --undo {again}"
        )
    if len(unknown) == len(roots):
        raise DedupeError(next(iter(unknown.values())))
    beside = [journal.parent] if past.act == "move" else []
    folders = [
        folder
        for folder in past.folders
        if not past.foreign or any(is_within(folder, top, hidden=True) for top in (*tops, *beside))
    ]
    return replace(past, roots=roots, folders=folders, unknown=past.unknown | unknown, named=tops)


class _Places:
    """The places of a journal's folders, of which only its own is sure."""

    def __init__(self, past: Past, written: Written, path: Path) -> None:
        self._past, self._written = past, written
        self.path, self._was = self._locate_journal(path), real_path(written.at)
        # A journal that lies elsewhere while there is one at its place was copied, unless its folder is the same.
        here = self.path == written.at or is_marked(self.path.parent, written.folder)
        self.copied = not here and os.path.lexists(self._was)
        self._in_trash = past.act != "move" and self.path.parent.parent.name == TRASH
        self.beside = here or self._in_trash or self._any_target(self.shift_path, self.went_beside)

    def _locate_journal(self, path: Path) -> Path:
        """The journal's path: as it was written if that leads to it, as it is named, or behind a link."""
        named, real = Path(full_path(path)), real_path(path)
        if real == real_path(self._written.at):
            return self._written.at
        if named.is_symlink() or (self._past.act != "move" and named.parent.parent.name != TRASH):
            return real
        return named

    def shift_path(self, place: str | Path) -> Path:
        """A place that has moved as the journal has."""
        if self.path == self._written.at:
            return Path(place)
        at = self._written.at if Path(place).is_relative_to(self._written.at.parent) else self._was
        return Path(os.path.normpath(self.path.parent / os.path.relpath(place, at.parent)))

    def went_beside(self, place: str) -> bool:
        """True for a place in the journal's own folder."""
        return Path(place).is_relative_to(self._written.at.parent)

    def roots(self) -> list[Path | None]:
        """The folders that files are from, where they are now; None for one that is not to be found."""
        marks = self._written.roots or [None] * len(self._past.roots)
        return [
            self._locate_own_root(root, mark) if self._is_own(root) else self._locate_other_root(root, mark)
            for root, mark in zip(self._past.roots, marks, strict=True)
        ]

    def is_original(self, root: int | None, places: Sequence[Path | None]) -> bool:
        """True for the number of a folder that is no copy of the one in which files were moved."""
        if root is None or (there := places[root]) is None:
            return False
        return bool(self._written.roots) and is_marked(there, self._written.roots[root])

    def reason(self, root: Path) -> str:
        """The reason why nothing is done with files from a folder that is not to be found."""
        if self.copied:
            return f"it is from {root}, and the journal was copied without that folder; name {self._written.at}"
        return (
            f"{root}, where it is from, is another folder by now; give that one its name back, or move the file by hand"
        )

    def _is_own(self, root: Path) -> bool:
        return self._past.act != "move" and self._written.at.is_relative_to(root / TRASH)

    def _locate_own_root(self, root: Path, mark: Mark | None) -> Path | None:
        """The folder in whose trash the journal was written."""
        if not self._in_trash:
            return root if self._is_same(root, mark) or self._any_target(Path, self.went_beside) else None
        above = self.path.parent.parent.parent
        if above == root or self.copied or is_marked(above, mark):
            return above
        if is_marked(root, mark) or (mark is None and root.is_dir()):
            return root  # the trash was moved alone
        moved = mark is None or any(os.path.lexists(self.shift_path(kept.keeper)) for kept in self._kept_in(root))
        return above if moved else None

    def _locate_other_root(self, root: Path, mark: Mark | None) -> Path | None:
        moved = self.shift_path(root)
        if self.copied and self._past.act != "move":
            there = moved != root and self._any_target(self.shift_path, lambda place: Path(place).is_relative_to(root))
            return moved if there else None
        if self._is_same(root, mark):
            return root
        if is_marked(moved, mark):
            return moved
        if self._past.act != "move":
            return root if self._any_target(Path, lambda place: Path(place).is_relative_to(root)) else None
        kept = [(Path(one.keeper), one.keeper_id) for one in self._kept_in(root)]
        whole = kept and all(self._past.may_read(path) and change_of(path, id) is None for path, id in kept)
        return root if whole else None

    def _is_same(self, root: Path, mark: Mark | None) -> bool:
        return is_marked(root, mark) or mark is None

    def _kept_in(self, root: Path) -> list[Entry]:
        return [one for one in self._past.entries if one.keeper and Path(one.keeper).is_relative_to(root)]

    def _any_target(self, placed: Callable[[str], Path], among: Callable[[str], bool]) -> bool:
        targets = (one.target for one in self._past.entries if among(one.target))
        return any(os.path.lexists(placed(target)) for target in targets)
