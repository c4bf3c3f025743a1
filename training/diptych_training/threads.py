"""Torch's number of threads, which is the whole process's: set for a run, and put back behind it; and its heap."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from diptych.heap import share_one_heap


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """So many threads of torch within the block, and as many as before after it, be it by an error.

    From then on the process keeps the memory that is freed (`share_one_heap`): a step frees and takes the same blocks
    again and again.
    """
    share_one_heap()
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
