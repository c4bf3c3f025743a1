"""Files that Diptych finds by a fixed name, in a folder that may come from a stranger."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_own(path: str | os.PathLike[str], *, may_link: bool = False) -> BufferedReader:
    """A regular file opened to be read; with `may_link` a link to one is followed.

    Raises OSError for a link, and for a pipe, which would be waited for.
    """
    return os.fdopen(open_regular(path, os.O_RDONLY, may_link=may_link), "rb")


def open_regular(path: str | os.PathLike[str], flags: int, *, may_link: bool = False) -> int:
    """The descriptor of a regular file, opened. `flags` may not truncate, as it would be too early for that.

    Raises OSError for what `open_own` refuses, and for a file to be written that has another name, by a hard link.
    """
    name = Path(path).name
    if not may_link and Path(path).is_symlink():
        raise OSError(errno.ELOOP, f"{name} is a link", os.fspath(path))
    follow = 0 if may_link else os.O_NOFOLLOW
    descriptor = os.open(path, flags | follow | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise OSError(code, f"{name} is no file", os.fspath(path))
    if flags & os.O_ACCMODE != os.O_RDONLY and status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, f"{name} is another file too, by a hard link; delete this name", os.fspath(path))
    return descriptor
