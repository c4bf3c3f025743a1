"""The signals that end a running process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_orderly() -> None:
    """Let SIGTERM end the process with code 0 through `SystemExit`, and a closed terminal (SIGHUP) and SIGQUIT be a
    SIGTERM. What is ignored, as SIGHUP is under nohup, stays so.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for other in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(other) != signal.SIG_IGN:
            signal.signal(other, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


@contextmanager
def interrupt_on_signals() -> Iterator[list[int]]:
    """Raise `KeyboardInterrupt` inside on SIGTERM and on SIGHUP (a closed terminal), as Ctrl-C does.

    So temporary folders and processes end with the block; gives the list that those received are added to.

    What is ignored, or has a handler already, stays so; outside the main thread nothing changes.
    """
    received: list[int] = []
    owner = os.getpid()

    def raise_interrupt(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a forked process, which whoever started it ends
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        received.append(number)
        raise KeyboardInterrupt

    with _handle_signals(raise_interrupt, lambda handler: handler == signal.SIG_DFL):
        yield received


@contextmanager
def defer_signals() -> Iterator[list[int]]:
    """Let signals that a program handles wait until the block is left.

    So none falls into the middle of it; gives the list of those that wait.
    """
    waiting: list[int] = []
    try:
        with _handle_signals(lambda number, _: waiting.append(number), callable):
            yield waiting
    finally:
        for number in waiting:
            signal.raise_signal(number)


@contextmanager
def _handle_signals(
    handler: Callable[[int, FrameType | None], object], which: Callable[[object], bool]
) -> Iterator[None]:
    """Put a handler in the place of `which` handlers of the signals that end a process."""
    before = {number: found for number in ENDING if which(found := signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, handler)
    except ValueError:  # not the main thread, which is the one that signals interrupt
        before = {}
    try:
        yield
    finally:
        for number, found in before.items():
            signal.signal(number, found)
