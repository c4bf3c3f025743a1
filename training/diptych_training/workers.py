"""Processes that compute beside others: one thread each, and an end with their parent's work, however that comes."""

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from diptych_training.errors import DataError


@contextmanager
def worker_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many processes. What ends the block early, as Ctrl-C or one that failed, ends them at once: what is
    left may take each of them minutes. Raises `DataError` where one was killed.
    """
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin_worker) as pool:
        try:
            yield pool
        except BaseException as error:
            for process in multiprocessing.active_children():
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise DataError(
                    "a process that computed was killed, as happens where memory runs out; what was finished is kept"
                ) from None
            raise


def _begin_worker() -> None:
    """One thread of torch, and an end with the parent's. Nobody would read what is computed on, and what is begun again
    would be written by both.
    """
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
