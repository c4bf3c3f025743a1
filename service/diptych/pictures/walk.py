"""The one way in which every command finds the picture files below folders.

Files count by their ending. A link to a file is followed; one to a folder is entered only where the command names it.
What `diptych dedupe` put aside is left out, and so is what an `Exclusion` says.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, Self

from diptych.console import format_count
from diptych_runtime.decoder import SUFFIXES
from diptych_runtime.errors import PictureError
from diptych_runtime.folders import DEFAULT, EXCLUDED, HIDDEN_FILES, Exclusion, walk_folder
from diptych_runtime.unread_formats import OTHER_FORMATS

TRASH = ".diptych-trash"  # where `diptych dedupe --delete` puts files aside
_COUNTED = 100_000  # entries of folders that are left out, at most: a snapshot of a disk may have millions
_NAMED = 5  # such folders, at most
_LAST = 2**63 - 1  # ns since 1970

Refuse = Callable[[str, str], object]


class Stamp(NamedTuple):
    """The marks of an unchanged file: bytes, time of the last change (ns since 1970) and inode."""

    bytes: int
    modified: int
    inode: int


class FoundFile(NamedTuple):
    """A regular file; `link` says that its path is a link to it."""

    stamp: Stamp
    device: int
    link: bool
    inode_changed: int  # ns since 1970; nobody can set it, so no copy has that of its original

    @classmethod
    def of(cls, status: os.stat_result, *, link: bool = False) -> Self:
        """The file, or folder, of this status; of a time that no database holds, the last that one does."""
        modified = max(-_LAST, min(status.st_mtime_ns, _LAST))
        return cls(Stamp(status.st_size, modified, status.st_ino), status.st_dev, link, status.st_ctime_ns)

    def identities(self) -> set[tuple[int, ...]]:
        """Marks of which two paths have one in common if they lead to the same file.

        Through an overlay or FUSE a folder has another device, and its inode may have a layer in the upper bits.
        """
        seen_through = (self.stamp.bytes, self.stamp.modified, self.stamp.inode % 2**32, self.inode_changed)
        return {(self.device, self.stamp.inode), seen_through}


class Skipped(NamedTuple):
    """The number of files with an ending that no picture has, and the path of the first of them."""

    files: int
    first: str


@dataclass
class Omissions:
    """Files that a walk left out, `skipped` by ending and pictures by reason, and whether all were `counted`."""

    skipped: dict[str, Skipped] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    counted: bool = True

    def skip(self, ending: str, files: int, first: str) -> None:
        """Count files with an ending that no picture has."""
        before = self.skipped.get(ending)
        self.skipped[ending] = Skipped(files + before.files, before.first) if before else Skipped(files, first)

    def add(self, other: Omissions) -> None:
        """Count those of another walk too."""
        for ending, (files, first) in other.skipped.items():
            self.skip(ending, files, first)
        self.left_out.update(other.left_out)
        self.counted = self.counted and other.counted

    def lines(self) -> list[str]:
        """The files in words, the most frequent first; empty if there are none."""
        lines = [line] if (line := self.left_out_line()) else []
        if not self.skipped:
            return lines
        total = sum(skipped.files for skipped in self.skipped.values())
        why = "its ending" if total == 1 else "their endings"
        lines.append(f"{format_count(total, 'file')} skipped because of {why}:")
        for ending, (files, first) in sorted(self.skipped.items(), key=lambda entry: (-entry[1].files, entry[0])):
            kind = f" ({OTHER_FORMATS[ending]})" if ending in OTHER_FORMATS else ""
            lines.append(f"  {files:,} {ending or 'without an ending'}{kind}, {'the first is ' * (files > 1)}{first}")
        return lines

    def left_out_line(self) -> str:
        """The pictures that an `Exclusion` left out, in one line; empty if there are none."""
        if not self.left_out:
            return ""
        ordered = self.left_out.most_common()
        by = {HIDDEN_FILES: "", EXCLUDED: "by "}
        named = [f"{count:,} {by.get(name, 'in ')}{name}" for name, count in ordered[:_NAMED]]
        if more := ordered[_NAMED:]:
            named.append(f"{sum(count for _, count in more):,} in {format_count(len(more), 'more folder')}")
        hint = "; --include-hidden takes them in" if self.left_out.keys() - {EXCLUDED} else ""
        total = format_count(self.left_out.total(), "picture")
        return f"{'' if self.counted else 'at least '}{total} left out: {', '.join(named)}{hint}"

    def data(self) -> dict[str, Any]:
        """The files for JSON: by ending how many, and the first of them, and by reason how many."""
        skipped = [{"ending": ending, **one._asdict()} for ending, one in self.skipped.items()]
        return {"skipped": skipped, "left_out": dict(self.left_out)}


@dataclass
class Tree:
    """The picture files below folders, by path: folder by folder, in alphabetical order.

    `refused` are paths that are no regular files, and `closed` those that cannot be read now, with the reason.
    """

    files: dict[str, FoundFile] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    omissions: Omissions = field(default_factory=Omissions)

    @classmethod
    def below(
        cls,
        folders: Iterable[str | os.PathLike[str]],
        exclusion: Exclusion = DEFAULT,
        endings: Collection[str] = SUFFIXES,
    ) -> Self:
        """The files with these endings below the folders; a file below two of them comes once."""
        tree = cls()
        for folder in folders:
            tree._walk_folder(os.fspath(folder), exclusion, endings)
        return tree

    def _walk_folder(self, top: str, exclusion: Exclusion, endings: Collection[str]) -> None:
        left_out: dict[str, str] = {}  # folders to come, and why they are left out
        countable = _COUNTED

        def close(error: OSError) -> None:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)  # since its parent was listed
            if error.filename not in left_out and not gone:
                self.closed[error.filename] = f"{error.filename} cannot be listed: {error.strerror}"

        for place, folders, names in walk_folder(top, close):
            reason = left_out.pop(place, "")
            if reason and (countable := countable - len(names) - len(folders)) < 0:
                self.omissions.counted = False
                folders.clear()
                continue
            if TRASH in folders:
                folders.remove(TRASH)
            # A Path for each of a million files takes seconds.
            before = os.path.join(place, "")  # noqa: PTH118
            for name in folders:
                if why := reason or exclusion.exclusion_reason(name, place, top, is_folder=True):
                    left_out[before + name] = why
            for name in names:
                ending = os.path.splitext(name)[1].lower()  # noqa: PTH122
                why = reason or exclusion.exclusion_reason(name, place, top, is_folder=False)
                if ending not in endings:
                    if not why:
                        self.omissions.skip(ending, 1, before + name)
                elif not why or ending not in SUFFIXES:  # the files of a move that was killed are hidden
                    self.take_file(before + name)
                else:
                    self.omissions.left_out[why] += 1

    def take_file(self, path: str) -> None:
        """Take up a file, if there is one; links are followed."""
        if path in self.files:
            return
        if not can_be_kept(path):
            self.refused[path] = _not_utf8(path)
            return
        link = False
        try:
            status = os.lstat(path)
            if link := stat.S_ISLNK(status.st_mode):
                status = os.stat(path)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            if link:
                self.refused[path] = f"{path} is a link to a file that does not exist"
        except OSError as error:
            self.closed[path] = f"{path} cannot be looked at: {error.strerror}"
        else:
            if stat.S_ISREG(status.st_mode):
                self.files[path] = FoundFile.of(status, link=link)
            else:
                self.refused[path] = f"{path} is not a file"

    def may_hold(self, path: str) -> bool:
        """True for a file that may well exist below a folder that cannot be read now."""
        return path in self.closed or any(str(folder) in self.closed for folder in Path(path).parents)


def no_picture(folders: Iterable[str | os.PathLike[str]], omissions: Omissions, but: str = "") -> str:
    """The sentence that there is no picture in any of these folders, `but` for those that do not count."""
    left_out = f"; {line}" if (line := omissions.left_out_line()) else ""
    return f"there is no picture ({', '.join(sorted(SUFFIXES))}){but} in {', '.join(map(str, folders))}{left_out}"


def pictures_in(
    paths: Iterable[Path], refuse: Refuse, exclusion: Exclusion = DEFAULT, omissions: Omissions | None = None
) -> Iterator[Path]:
    """The files named, and those below folders named; `refuse` gets the unreadable, `omissions` what is left out."""
    for path in paths:
        if path.is_dir():
            tree = Tree.below([path], exclusion)
            for unread, reason in (tree.refused | tree.closed).items():
                refuse(unread, reason)
            if omissions is not None:
                omissions.add(tree.omissions)
            yield from map(Path, tree.files)
        else:
            yield path


def is_folder(path: str) -> bool:
    """True for a folder, also where its path is longer than the system takes."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing; Path.mkdir does so by recursion."""
    for missing in reversed([*takewhile(lambda one: not one.exists(), (folder, *folder.parents))]):
        missing.mkdir(exist_ok=True)


def place_in(root: Path, path: Path) -> Path | None:
    """`root`, or the folder below it, that a path lies in, also where that is another mount of it; None outside."""
    return places_in(root, [path]).get(path)


def places_in(root: Path, paths: Iterable[Path]) -> dict[Path, Path]:
    """The paths that lie in `root`, each with the `place_in` it: the folders below are walked through once for all."""
    found: dict[Path, Path] = {}
    marked: dict[tuple[int, ...], list[Path]] = {}
    for path in paths:
        if path.is_relative_to(root):
            found[path] = root
            continue
        for folder in (path, *path.parents):
            with suppress(OSError):  # it is yet to be made
                for mark in FoundFile.of(folder.stat()).identities():
                    marked.setdefault(mark, []).append(path)
    for place, _, _ in walk_folder(root) if marked else ():
        with suppress(OSError):
            for mark in FoundFile.of(Path(place).stat()).identities():
                for path in marked.get(mark, ()):
                    found.setdefault(path, Path(place))
    return found


def real_path(path: str | os.PathLike[str]) -> Path:
    """A path without links, as far as they lead somewhere: of those in a circle too, which Path.resolve refuses."""
    return Path(os.path.realpath(path))


def full_path(path: str | os.PathLike[str]) -> str:
    """A path as the collection keeps it: absolute, without `..`, links left as the user named them."""
    return os.path.abspath(path)  # noqa: PTH100 - Path.resolve would follow links


def can_be_kept(name: str) -> bool:
    """True for a name that the database can hold: it takes UTF-8 only, a file system takes more."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_name(path: str) -> None:
    """Raise PictureError for a name that the database cannot hold."""
    if not can_be_kept(path):
        raise PictureError(_not_utf8(path))


def _not_utf8(path: str) -> str:
    return f"{path.encode('utf-8', 'backslashreplace').decode()} has a name that is not UTF-8; rename it"
