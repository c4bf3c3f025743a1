"""One writer at a time, held by the operating system: a killed process leaves nothing to clean up."""

from __future__ import annotations

import fcntl
import os
import sys
from itertools import takewhile
from pathlib import Path

from diptych.errors import StoreError, StoreInUseError
from diptych_runtime.own_files import open_regular

LOCK = "writer.lock"  # in the folder of a collection


class WriterLock:
    """An exclusive lock on a file that names its holder; freed by `release` or by the end of the process."""

    def __init__(self, path: Path, what: str) -> None:
        """Take the lock at once, or raise StoreInUseError saying which process holds it. `what` is used in the text.

        Raises StoreError where the file system has no locks, and OSError for a link, a hard one too, in the place of
        the file.
        """
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        file = os.fdopen(descriptor, "a+", encoding="utf-8", errors="backslashreplace")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise StoreInUseError(
                f"{what} is being written by process {holder}; wait for it or stop it (only one process may write)"
            ) from None
        except OSError as error:
            file.close()
            raise StoreError(f"{what} cannot be locked: {error.strerror}; expected a local file system") from None
        file.truncate(0)
        file.write(f"{os.getpid()} ({_name_command()})\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        """Let the next writer in; a second call does nothing."""
        self._file.close()


def _name_command() -> str:
    """The command of this process, for people: "diptych serve" beside its number."""
    program, *words = sys.argv or [""]
    return " ".join([Path(program).name or "python", *takewhile(str.isidentifier, words[:2])])
