"""Processes forked from a server without threads: a plain fork takes along locks and not the threads that hold them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker, util
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

# Imported once, in the server and in this order: NumPy, Pillow and the functions that decode.
_PRELOAD = ["diptych.scoring.single_thread", "diptych.scoring.decode_pool", "diptych.pictures.content"]
# What `multiprocessing` remembers of its children is not made for several threads.
CHILDREN = Lock()
# The exit status of a process whose own was lost with the server.
LOST = 255
_SAFE_PATH = "PYTHONSAFEPATH"
# Bytes of the folder that a socket is in: less what may be in its address, and what `multiprocessing` calls it.
_FOLDER = (107 if sys.platform == "linux" else 103) - len("/listener-12345678")


def start_process(
    target: Callable[..., object], args: tuple[object, ...], *, name: str
) -> tuple[BaseProcess, Connection]:
    """A process that runs `target(pipe, *args)`, and the near end of that pipe. Raises OSError if it cannot start."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    _check_socket_folder()
    near, far = context.Pipe()
    process = context.Process(target=target, args=(far, *args), name=name, daemon=True)
    try:
        with CHILDREN, safe_path(), sigint_blocked():
            process.start()
    except (EOFError, OSError) as error:
        near.close()
        raise OSError(f"no process could be forked for decoding: {str(error) or 'its server ended'}") from None
    finally:
        far.close()
    return process, near


def _check_socket_folder() -> None:
    """Raise OSError where the server's socket has no place in the folder for temporary files."""
    try:
        folder = util.get_temp_dir()
    except OSError as error:
        folder = error.filename or "none"
    if not Path(folder).is_dir() or len(os.fsencode(folder)) > _FOLDER:
        raise OSError(
            f"decoding processes need a folder for temporary files that is there and whose name has at most {_FOLDER} "
            f"bytes, got {folder}; name one in TMPDIR and start again"
        )


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes started inside import nothing from the current folder before they have this process's path."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


@contextmanager
def sigint_blocked() -> Iterator[None]:
    """Processes started inside never hear Ctrl-C, which a terminal sends to them too, not even while they start."""
    resource_tracker.ensure_running()  # it would unblock the signal if it started later
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
