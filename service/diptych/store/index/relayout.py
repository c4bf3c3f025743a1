"""Making a collection's index anew in the background, when it has outgrown how it is laid out."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread

from diptych.store.index.candidates import CandidateIndex
from diptych.store.index.source import Source

logger = logging.getLogger(__name__)


class Relayout:
    """A thread that lays an index out anew and then calls `save`: `maybe_start` after each change, then `close`."""

    def __init__(self, index: CandidateIndex, store: Source, save: Callable[[], None]) -> None:
        self.index, self.store, self.save = index, store, save
        self._thread: Thread | None = None
        self._over = False
        self._lock = Lock()

    def maybe_start(self) -> None:
        """Begin if the index has outgrown its layout and no relayout is running."""
        with self._lock:
            if self._over or (self._thread is not None and self._thread.is_alive()) or not self.index.needs_relayout():
                return
            self._thread = Thread(target=self._run, name="diptych-index", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Begin no more, and wait for a relayout in progress: seconds for a million pictures."""
        with self._lock:
            self._over = True
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self.index.relayout(self.store)
            self.save()
            _give_back_memory()
            layout = self.index.layout()
            logger.info(
                "%s: %d pictures in the index, in %d lists", self.store.directory, len(self.index), layout["lists"]
            )
        except Exception as error:
            # What there is still answers; trying again with every change would fail as often.
            self._over = True
            logger.warning("%s: the index was not made anew and stays as it is: %s", self.store.directory, error)


def _give_back_memory() -> None:
    """Let glibc give back the memory of the old index, which it would keep for good: a millisecond for 100 MB."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
