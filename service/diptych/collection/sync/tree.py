"""What picture files there are below some folders, and what of them could not be looked at."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from diptych.collection.ingest import can_be_kept, full_path
from diptych.errors import SyncError
from diptych.pictures.walk import picture_files


class Stamp(NamedTuple):
    """What a file is taken to be unchanged by: bytes, time of the last change (ns since 1970) and inode."""

    bytes: int
    modified: int
    inode: int


@dataclass
class Tree:
    """The files below the roots by path; `refused` are no files to read and `closed` what cannot be looked at now,
    files and whole folders, with reasons.
    """

    files: dict[str, Stamp] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)

    def hides(self, path: str) -> bool:
        """Whether a file may well be there, but nobody can look."""
        return path in self.closed or any(str(folder) in self.closed for folder in Path(path).parents)

    def look(self, path: str) -> None:
        """Take up a file, if there is one; links are followed."""
        try:
            status = os.stat(path)  # noqa: PTH116 - a Path for each of a million files takes seconds
        except (FileNotFoundError, NotADirectoryError):
            if os.path.islink(path):  # noqa: PTH114
                self.refused[path] = f"{path} is a link to a file that does not exist"
        except OSError as error:
            self.closed[path] = f"{path} cannot be looked at: {error.strerror}"
        else:
            if stat.S_ISREG(status.st_mode):
                self.files[path] = Stamp(status.st_size, status.st_mtime_ns, status.st_ino)
            else:
                self.refused[path] = f"{path} is not a file"


def checked(folders: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The folders as absolute paths, each once; links stay as they are named. Raises SyncError for what is none."""
    roots = list(dict.fromkeys(map(full_path, folders)))
    for root in roots:
        if not os.path.isdir(root):  # noqa: PTH112
            what = "is a file" if os.path.exists(root) else "does not exist"  # noqa: PTH110
            raise SyncError(f"expected a folder to follow, and {root} {what}; nothing was changed")
        if not can_be_kept(root):
            shown = root.encode("utf-8", "backslashreplace").decode()
            raise SyncError(f"{shown} has a name that is not UTF-8, which no collection can keep; rename it")
    return roots


def listed(roots: Sequence[str]) -> Tree:
    """The picture files (by ending) below the roots, as `diptych index add` finds them: links to folders are not
    entered, and neither is what `diptych dedupe` put into a trash folder.
    """
    tree = Tree()

    def unlisted(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            tree.closed[error.filename] = f"{error.filename} cannot be listed: {error.strerror}"

    for root in roots:
        for path in picture_files(root, unlisted):
            if path in tree.files:
                continue
            if can_be_kept(path):
                tree.look(path)
            else:
                shown = path.encode("utf-8", "backslashreplace").decode()
                tree.refused[path] = f"{shown} has a name that is not UTF-8; rename it"
    return tree
