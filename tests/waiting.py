"""What tests of processes wait for."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def eventually(done: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether it is done within so many seconds; returns as soon as it is."""
    limit = time.monotonic() + seconds
    while not done():
        if time.monotonic() >= limit:
            return False
        time.sleep(0.005)
    return True


def until(done: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for a step of a test, and fail it where that is in vain; what the test is about is asserted in sight."""
    assert eventually(done, seconds), "waited in vain"


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits for its exit status to be read does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def answer(pipe, *args) -> None:
    """Send the number of this process and what it was given: the work of a process that tests start."""
    pipe.send((os.getpid(), args))
