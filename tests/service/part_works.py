"""What the pool of processes is given to do in its tests (it can only do what it can import), and an engine."""

import os
import signal
import time
from pathlib import Path

from diptych.errors import BatchError


def plain(number: int) -> int:
    return number


def once(number: int, *, folder: Path) -> int:
    """Ends the process that comes to the third part first."""
    if number == 3:
        try:
            (folder / "met").touch(exist_ok=False)
        except FileExistsError:
            return number
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def always(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def wrong(number: int) -> int:
    raise {1: BatchError("one reason"), 2: OSError(28, "No space left on device", "part")}[number]


def slow(number: int) -> int:
    time.sleep(60)
    return number


class Ending:
    """An engine whose driver is stopped when three parts are there, one of them taken over."""

    def run(self, work, attempts):
        numbers = [attempts.take_part() for _ in range(3)]
        for number in numbers:
            work(number)
        yield numbers[0]
        raise KeyboardInterrupt
