"""The disk under a job: whether it has room, and what the system refuses, in words that say what to do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diptych.console import byte_size
from diptych.errors import BatchError


def check_room(folder: Path, needed: int, what: str, remedy: str) -> None:
    """Raise BatchError if the disk of a folder has fewer than so many bytes free for `what`."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BatchError(
            f"{folder} needs about {byte_size(needed)} of disk for {what}, and {byte_size(free)} are free; {remedy}"
        )


@contextmanager
def explain_disk_errors(folder: Path, again: str) -> Iterator[None]:
    """Turn an OSError inside the block into a BatchError that says how to go on.

    It names the file, the reason, and what to do `again` once that is mended.
    """
    try:
        yield
    except OSError as error:
        raise BatchError(
            f"{error.filename or folder}: {error.strerror or error}; what is done is kept, so mend that and {again}"
        ) from None
