"""The one way in which every command finds the picture files below folders.

Files count by their ending. A link to a file is followed, and one that leads nowhere is named with the reason; a link
to a folder is entered only where the command names it. What `diptych dedupe` put aside is left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from diptych_runtime.decoder import SUFFIXES
from diptych_runtime.errors import PictureError

TRASH = ".diptych-trash"  # where `diptych dedupe --delete` puts files aside

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


@dataclass
class Tree:
    """The picture files below folders, by path: folder by folder, in alphabetical order.

    `refused` are paths that are no regular files, and `closed` files and whole folders that cannot be read now, both
    with the reason.
    """

    files: dict[str, FoundFile] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def below(cls, folders: Iterable[str | os.PathLike[str]], endings: Collection[str] = SUFFIXES) -> Self:
        """The files with these endings below the folders; a file below two of them comes once."""
        tree = cls()
        for folder in folders:
            for place, subfolders, names in os.walk(folder, onerror=tree._close):
                subfolders[:] = sorted(name for name in subfolders if name != TRASH)
                for name in sorted(names):
                    # A Path for each of a million files takes seconds.
                    if os.path.splitext(name)[1].lower() in endings:  # noqa: PTH122
                        tree.look(os.path.join(place, name))  # noqa: PTH118
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


def pictures_in(paths: Iterable[Path], refuse: Refuse) -> Iterator[Path]:
    """The files named, and every picture file below the folders named.

    `refuse` gets the path and the reason of each file and folder below them that cannot be read.
    """
    for path in paths:
        if path.is_dir():
            tree = Tree.below([path])
            for unread, reason in (tree.refused | tree.closed).items():
                refuse(unread, reason)
            yield from map(Path, tree.files)
        else:
            yield path


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
