"""One file moved so that no moment loses it: never over another file, and across file systems too."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from diptych.durable import sync_folder

_UNLINKED = {errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES}


def move(source: Path, target: Path) -> None:
    """Move a file; folders are made. At every moment it is whole at `source`, at `target`, or at both.

    Raises FileExistsError if there is something at `target`, which stays as it is, and OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not _linked(source, target):
        part = part_of(target)
        try:
            with source.open("rb") as old, part.open("wb") as new:
                shutil.copyfileobj(old, new, 1 << 20)
                new.flush()
                os.fsync(new.fileno())
            shutil.copystat(source, part)
            if not _linked(part, target):
                # A file system without links, such as FAT: nothing there makes the check and the rename one step.
                if target.exists():
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
                part.rename(target)
        finally:
            part.unlink(missing_ok=True)
    sync_folder(target.parent)
    source.unlink()
    sync_folder(source.parent)


def part_of(target: Path) -> Path:
    """What a file is called while it grows beside `target`; a killed move may leave it."""
    return target.with_name(f".{target.name}.diptych-part")


def _linked(source: Path, target: Path) -> bool:
    """Give a file a second name, which fails where there is one; False if the file systems do not do that."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno in _UNLINKED:
            return False
        raise
    return True
