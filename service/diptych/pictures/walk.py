"""The one way in which every command finds the picture files below folders.

Files count by their ending. A link to a file is followed, and one that leads nowhere is named with the reason; a link
to a folder is entered only where the command names it. What `diptych dedupe` put aside is left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from diptych.console import counted
from diptych_runtime.decoder import SUFFIXES
from diptych_runtime.errors import PictureError

TRASH = ".diptych-trash"  # where `diptych dedupe --delete` puts files aside
# The endings of raw files, which are not read.
RAW = frozenset(
    {".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".fff", ".gpr", ".iiq", ".k25", ".kdc", ".mef"}
    | {".mos", ".mrw", ".nef", ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"}
)

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
        """The file, or folder, of this status."""
        return cls(Stamp(status.st_size, status.st_mtime_ns, status.st_ino), status.st_dev, link, status.st_ctime_ns)

    def identities(self) -> set[tuple[int, ...]]:
        """Marks of which two paths have one in common if they lead to the same file.

        Where a folder is seen through another one (an overlay, FUSE), it has another device there; and an overlay may
        mark the inode with the number of its layer in the upper bits (`xino`).
        """
        seen_through = (self.stamp.bytes, self.stamp.modified, self.stamp.inode % 2**32, self.inode_changed)
        return {(self.device, self.stamp.inode), seen_through}


class Skipped(NamedTuple):
    """The number of files with an ending that no picture has, and the path of the first of them."""

    files: int
    first: str


@dataclass
class Tree:
    """The picture files below folders, by path: folder by folder, in alphabetical order.

    `refused` are paths that are no regular files, and `closed` files and whole folders that cannot be read now, both
    with the reason. `skipped` are the files with other endings, by ending.
    """

    files: dict[str, FoundFile] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, Skipped] = field(default_factory=dict)

    @classmethod
    def below(cls, folders: Iterable[str | os.PathLike[str]], endings: Collection[str] = SUFFIXES) -> Self:
        """The files with these endings below the folders; a file below two of them comes once."""
        tree = cls()
        for folder in folders:
            for place, subfolders, names in os.walk(folder, onerror=tree._close):
                subfolders[:] = sorted(name for name in subfolders if name != TRASH)
                for name in sorted(names):
                    # A Path for each of a million files takes seconds.
                    ending = os.path.splitext(name)[1].lower()  # noqa: PTH122
                    path = os.path.join(place, name)  # noqa: PTH118
                    if ending in endings:
                        tree.look(path)
                    else:
                        count_skipped(tree.skipped, {ending: Skipped(1, path)})
        return tree

    def look(self, path: str) -> None:
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

    def hides(self, path: str) -> bool:
        """True for a file that may well exist below a folder that cannot be read now."""
        return path in self.closed or any(str(folder) in self.closed for folder in Path(path).parents)

    def _close(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):  # gone since its parent was listed
            self.closed[error.filename] = f"{error.filename} cannot be listed: {error.strerror}"


def no_picture(folders: Iterable[str | os.PathLike[str]], but: str = "") -> str:
    """The sentence that there is no picture in any of these folders, `but` for those that do not count."""
    return f"there is no picture ({', '.join(sorted(SUFFIXES))}){but} in {', '.join(map(str, folders))}"


def count_skipped(counts: dict[str, Skipped], more: Mapping[str, Skipped]) -> None:
    """Add further skipped files to the counts by ending."""
    for ending, (files, first) in more.items():
        before = counts.get(ending)
        counts[ending] = Skipped(files + before.files, before.first) if before else Skipped(files, first)


def skipped_lines(counts: Mapping[str, Skipped]) -> list[str]:
    """The skipped files in words, the most frequent ending first; empty if there are none."""
    if not counts:
        return []
    total = sum(skipped.files for skipped in counts.values())
    lines = [f"{counted(total, 'file')} skipped because of {'its ending' if total == 1 else 'their endings'}:"]
    for ending, (files, first) in sorted(counts.items(), key=lambda entry: (-entry[1].files, entry[0])):
        kind = " (camera RAW, which is not read: export JPEG or TIFF)" if ending in RAW else ""
        lines.append(f"  {files:,} {ending or 'without an ending'}{kind}, {'the first is ' * (files > 1)}{first}")
    return lines


def skipped_entries(counts: Mapping[str, Skipped]) -> list[dict[str, str | int]]:
    """The skipped files for JSON: the ending, the number of files and the first of them."""
    return [{"ending": ending, "files": files, "first": first} for ending, (files, first) in counts.items()]


def pictures_in(paths: Iterable[Path], refuse: Refuse, skipped: dict[str, Skipped] | None = None) -> Iterator[Path]:
    """The files named, and every picture file below the folders named.

    `refuse` gets the path and the reason of each file and folder below them that cannot be read; the files with other
    endings are counted in `skipped`.
    """
    for path in paths:
        if path.is_dir():
            tree = Tree.below([path])
            for unread, reason in (tree.refused | tree.closed).items():
                refuse(unread, reason)
            if skipped is not None:
                count_skipped(skipped, tree.skipped)
            yield from map(Path, tree.files)
        else:
            yield path


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
    for place, _, _ in os.walk(root) if marked else ():
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
