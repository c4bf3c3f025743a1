"""The record of a picture in a collection, the labels of pairs, and the reports of checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal, Self, get_args

Answer = Literal["same", "different", "cannot tell"]

FileState = Literal["unchanged", "changed", "missing"]

ANSWERS: tuple[Answer, ...] = get_args(Answer)


@dataclass(frozen=True)
class FileStamp:
    """The size in bytes of a file, and the time of its last change in ns since 1970."""

    bytes: int
    modified: int

    @classmethod
    def of(cls, path: str) -> Self | None:
        """The stamp of the file at a path; None where none is to be had."""
        try:
            status = Path(path).stat()
        except (OSError, ValueError):
            return None
        return cls(status.st_size, status.st_mtime_ns) if S_ISREG(status.st_mode) else None


@dataclass(frozen=True)
class Record:
    """A stored picture without its pixels: `width` x `height` upright, `added` as ISO time (UTC).

    `stamp` is that of its file when its content was read last; None where that is not known. `frames` are those of an
    animation, the pages of a TIFF or the pictures of a burst, 1 of any other; None of a picture that was added by a
    version that did not count them.
    """

    id: str
    path: str | None
    metadata: dict[str, Any]
    width: int
    height: int
    original_kept: bool
    added: str
    media_type: str
    sha256: str
    revision: str
    stamp: FileStamp | None = None
    frames: int | None = None

    @property
    def file_state(self) -> FileState | None:
        """The state of the file at its path, by size and time; None where the one that was read is not known."""
        if self.path is None or self.stamp is None:
            return None
        now = FileStamp.of(self.path)
        return "missing" if now is None else "unchanged" if now == self.stamp else "changed"


@dataclass(frozen=True)
class NewPicture:
    """A row to be: `embedding` little-endian float32, `tokens` as a `TokenCodec` packs them, `data` if kept."""

    id: str
    sha256: str
    path: str | None
    media_type: str
    width: int
    height: int
    metadata: dict[str, Any]
    revision: str
    embedding: bytes
    tokens: bytes
    data: bytes | None
    stamp: FileStamp | None = None
    frames: int | None = None


@dataclass(frozen=True)
class Change:
    """One step of the journal: `embedding` is the row's present one, empty if damaged, or None if the row is gone."""

    sequence: int
    row: int
    embedding: bytes | None


@dataclass(frozen=True)
class Label:
    """A person's answer about two pictures, the lower id first, `added` at ISO time (UTC); None for an unknown path."""

    a: str
    b: str
    question: str
    answer: Answer
    added: str
    path_a: str | None = None
    path_b: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Both ids."""
        return self.a, self.b


@dataclass(frozen=True)
class NewLabel:
    """An answer about the pictures with two different ids, in either order; `added` is the present time by default."""

    a: str
    b: str
    question: str
    answer: Answer
    added: str | None = None


@dataclass(frozen=True)
class VerifyReport:
    """The result of a verification; `remarks` are no damage (a file moved away, a cache behind)."""

    pictures: int
    problems: list[str]
    remarks: list[str]

    @property
    def healthy(self) -> bool:
        """True if there is no problem."""
        return not self.problems


@dataclass(frozen=True)
class FilesReport:
    """Of the paths that were `compared`, those whose file has `changed`, and those `missing` or not to be read."""

    compared: int
    changed: list[str]
    missing: list[str]
