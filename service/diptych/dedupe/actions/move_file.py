"""One file moved so that no moment loses it: never over another file, never another than was meant, and across file
systems too.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from diptych.errors import DedupeError
from diptych.pictures.content import file_id
from diptych.pictures.walk import make_folder
from diptych_runtime.atomic import sync_folder
from diptych_runtime.own_files import open_own

_UNLINKED = {errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES}
HELD, PART = ".diptych-moving", ".diptych-part"
_LONGEST = 255  # bytes of a file's name


class ChangedError(Exception):
    """The error of a file that has changed since it was scored; its message completes "the file ..."."""


def move_file(source: Path, target: Path, id: str, *, keeper: Path | None = None) -> None:
    """Move the file whose content has this id; folders are made. One that takes its `keeper` along stays.

    The source takes a name of its own first (`held_of`), by which nobody saves it, and only what is found under that
    name is moved: a file saved anew in its place stays. At every moment it is whole at `source`, under the name by
    which it is held, at `target` or at two of them. Raises ChangedError for another content, also one that comes while
    it is copied, FileExistsError if there is something at `target`, which stays as it is, and OSError; then it is back
    at `source`.
    """
    make_folder(target.parent)
    held = private_beside(source, HELD)
    source.rename(held)
    try:
        if (reason := change_of(held, id)) is not None:
            raise ChangedError(reason)
        if keeper is not None:
            _check_kept(keeper, held)
        if not _try_link(held, target):
            _copy_file(held, target, id)
    except BaseException as error:
        try:
            stays = None if give_back(held, source) else f"was saved anew meanwhile; what it was before is {held}"
        except OSError as failed:
            stays = f"is {held} now, as it cannot get its name back: {failed.strerror}; --undo tries again"
        if stays and isinstance(error, Exception):
            raise ChangedError(stays) from error
        raise
    sync_folder(target.parent)
    held.unlink()
    sync_folder(source.parent)


def _check_kept(keeper: Path, held: Path) -> None:
    """Raise ChangedError where a file that was renamed is its own keeper, seen in another place, or that has gone."""
    try:
        with open_own(keeper) as file:  # a look at the name alone may be answered from a cache
            itself = same_file(os.fstat(file.fileno()), held.stat())
    except OSError:
        itself = True
    if itself:
        raise ChangedError(f"is the same file as the one to keep, {keeper}, or that has gone meanwhile")


def same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """True if both are of one file, also where it is seen through another file system (an overlay, FUSE).

    That gives it a device of its own, and possibly an inode; but no other file was changed in the same nanosecond as
    one that has just been renamed.
    """
    marks = ((status.st_size, status.st_mtime_ns, status.st_ctime_ns) for status in (one, other))
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino) or next(marks) == next(marks)


def held_of(path: Path) -> list[Path]:
    """The names under which files of this path were held when a move of them was killed."""
    return kept_beside(path, HELD)


def parts_of(path: Path) -> list[Path]:
    """Partial files beside this path, left by a killed move to it; none is an only copy."""
    return kept_beside(path, PART)


def give_back(held: Path, path: Path) -> bool:
    """Give a file that is held its name back; False if there is another one at it by now, and it stays held."""
    try:
        if not _try_link(held, path):
            _rename_unlinked(held, path)
            return True
    except FileExistsError:
        if path.is_symlink() or not path.samefile(held):
            return False
    held.unlink()  # it has both names
    return True


def change_of(path: Path, id: str) -> str | None:
    """The change of a file that had a content with this id, in words; None for none. Its bytes are read again."""
    try:
        found = file_id(path)
    except FileNotFoundError:
        return "is gone"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None if found == id else "has changed since it was scored"


@contextmanager
def alone_in(folders: Sequence[Path]) -> Iterator[None]:
    """Keep other runs from moving files in these folders, above or below them; DedupeError if one does.

    The locks are on the folders themselves and leave nothing behind; a file system without locks goes without.
    """
    with ExitStack() as stack:
        above = [place for folder in folders for place in folder.parents if place not in folders]
        held = set[tuple[int, int]]()  # one folder may be named twice, by two mounts of it
        for places, how in ((folders, fcntl.LOCK_EX), (above, fcntl.LOCK_SH)):
            for place in dict.fromkeys(places):
                with suppress(OSError):
                    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
                    stack.callback(os.close, descriptor)
                    status = os.fstat(descriptor)
                    if (status.st_dev, status.st_ino) in held:
                        continue
                    held.add((status.st_dev, status.st_ino))
                    try:
                        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
                    except BlockingIOError:
                        message = f"another run is moving pictures in {place} or below it; wait until it has ended"
                        raise DedupeError(message) from None
        yield


def private_beside(path: Path, ending: str) -> Path:
    """Free name beside a path, made of its own name, or the digest of one too long, and this ending."""
    name, more = path.name, f".{uuid4().hex}{ending}"
    if len(os.fsencode(f".{name}{more}")) > _LONGEST:
        name = _name_digest(name)
    return path.with_name(f".{name}{more}")


def kept_beside(path: Path, ending: str) -> list[Path]:
    """The files beside a path that have a private name of it with this ending."""
    names = f"{re.escape(path.name)}|{_name_digest(path.name)}"
    named = re.compile(rf"\.({names})(\.[0-9a-f]{{32}})?{re.escape(ending)}", re.DOTALL)
    with suppress(OSError):
        return sorted(one for one in path.parent.iterdir() if named.fullmatch(one.name))
    return []


def _name_digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()


def _copy_file(held: Path, target: Path, id: str) -> None:
    part, before = private_beside(target, PART), held.stat()
    try:
        with held.open("rb") as old, part.open("xb") as new:
            shutil.copyfileobj(old, new, 1 << 20)
            new.flush()
            os.fsync(new.fileno())
        with suppress(PermissionError):
            os.chown(part, before.st_uid, before.st_gid)
        shutil.copystat(held, part)
        # Who opened it before it got its other name may still write into it.
        if change_of(part, id) or _file_state(held.stat()) != _file_state(before):
            raise ChangedError("was being written while it was copied")
        if not _try_link(part, target):
            _rename_unlinked(part, target)
        if _file_state(held.stat()) != _file_state(before):
            target.unlink()
            raise ChangedError("was being written while it was copied")
    finally:
        part.unlink(missing_ok=True)


def _file_state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _rename_unlinked(old: Path, new: Path) -> None:
    """Rename over nothing where there are no links, as on FAT: there the check and the rename are two steps."""
    if os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
    old.rename(new)


def _try_link(source: Path, target: Path) -> bool:
    """Give a file a second name, which fails where there is one; False if the file systems do not do that."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _UNLINKED:
            return False
        raise
    return True
