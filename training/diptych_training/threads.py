"""Torch's number of threads, which is the whole process's: set for a run, and put back behind it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """So many threads of torch within the block, and as many as before after it, be it by an error."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
