"""A process of a pool that computes beside others: one thread, and an end with its parent's."""

import multiprocessing
import os
import threading


def begin_worker() -> None:
    """The initializer of a pool: one thread of torch, and an end with the parent's, however that came. Nobody would
    read what is computed on, and what is begun again would be written by both.
    """
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
