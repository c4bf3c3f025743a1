"""One file moved so that no moment loses it: never over another file, never another than was meant, and across file
systems too.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

from diptych.content import picture_id
from diptych.durable import sync_folder

_UNLINKED = {errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES}
HELD = ".diptych-moving"


class ChangedError(Exception):
    """The file is no longer what it was said to be; its message completes "the file ..."."""


def move(source: Path, target: Path, id: str) -> None:
    """Move the file whose content has this id; folders are made.

    The source takes a name of its own first (`held_of`), by which nobody saves it, and only what is found under that
    name is moved: a file saved anew in its place stays. At every moment it is whole at `source`, at `held_of(source)`,
    at `target` or at two of them. Raises ChangedError for another content, also one that comes while it is copied,
    FileExistsError if there is something at `target`, which stays as it is, and OSError; then it is back at `source`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    held = held_of(source)
    _rename(source, held)
    try:
        if (reason := change_of(held, id)) is not None:
            raise ChangedError(reason)
        if not _linked(held, target):
            _copy(held, target, id)
    except BaseException as error:
        if not release(source) and isinstance(error, Exception):
            raise ChangedError(f"was saved anew meanwhile; what it was before is {held}") from error
        raise
    sync_folder(target.parent)
    held.unlink()
    sync_folder(source.parent)


def held_of(source: Path) -> Path:
    """What a file is called while it is moved away; a killed move may leave it."""
    return source.with_name(f".{source.name}{HELD}")


def part_of(target: Path) -> Path:
    """What a file is called while it grows beside `target`; a killed move may leave it."""
    return target.with_name(f".{target.name}.diptych-part")


def release(source: Path) -> bool:
    """Give what is held its name back; False if there is another file at `source` by now, and it stays held."""
    try:
        _rename(held_of(source), source)
    except FileExistsError:
        return False
    return True


def change_of(path: Path, id: str) -> str | None:
    """What became of a file that had a content with this id; None if nothing. The bytes are read again."""
    try:
        with path.open("rb") as file:
            found = picture_id(hashlib.file_digest(file, "sha256").hexdigest())
    except FileNotFoundError:
        return "is gone"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None if found == id else "has changed since it was scored"


def _copy(held: Path, target: Path, id: str) -> None:
    part, before = part_of(target), _state(held)
    try:
        with held.open("rb") as old, part.open("wb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())
        shutil.copystat(held, part)
        # Who opened it before it got its other name may still write into it.
        if change_of(part, id) or _state(held) != before:
            raise ChangedError("was being written while it was copied")
        _rename(part, target)
        if _state(held) != before:
            target.unlink()
            raise ChangedError("was being written while it was copied")
    finally:
        part.unlink(missing_ok=True)


def _state(path: Path) -> tuple[int, ...]:
    status = path.stat(follow_symlinks=False)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _rename(old: Path, new: Path) -> None:
    """Rename within a folder, over nothing."""
    if _linked(old, new):
        old.unlink()
        return
    # A file system without links, such as FAT: nothing there makes the check and the rename one step.
    if new.exists() or new.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
    old.rename(new)


def _linked(source: Path, target: Path) -> bool:
    """Give a file a second name, which fails where there is one; False if the file systems do not do that."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _UNLINKED:
            return False
        raise
    return True
