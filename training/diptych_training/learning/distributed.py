"""Several processes that train one network, as `torchrun` starts them; or one, for which all of this is nothing."""

import os
from collections.abc import Iterable
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from diptych_training.device import default_device

TIMEOUT = timedelta(hours=2)  # the others wait while the first validates


def is_first() -> bool:
    """True if this process writes, measures and speaks for the run; a single process does."""
    return os.environ.get("RANK", "0") == "0"


class Processes:
    """This process among those of the run: its device, its share of the pairs, and sums over all.

    Every process draws and encodes the whole step, so that batch statistics and contrast are those of one process;
    relating the pairs, which is most of the work, is shared.
    """

    def __init__(self) -> None:
        self.count, self.rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
        self.device = default_device(int(os.environ.get("LOCAL_RANK", "0")))
        if self.count > 1 and not dist.is_initialized():
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo", timeout=TIMEOUT)

    @property
    def first(self) -> bool:
        """True if this process writes and measures."""
        return is_first()

    def share(self, rows: int) -> Tensor:
        """The rows of a step, out of so many, that this process relates, int64."""
        return torch.arange(rows)[self.rank :: self.count]

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.count > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def mean(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over all processes: what all computed alike stays alike to the last bit."""
        if self.count > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)
                tensor /= self.count

    def as_first(self, array: np.ndarray) -> np.ndarray:
        """The first process's array, int64, of a shape that all know."""
        if self.count == 1:
            return array
        tensor = torch.from_numpy(np.ascontiguousarray(array, np.int64)).to(self.device)
        dist.broadcast(tensor, 0)
        return tensor.cpu().numpy()

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            dist.barrier()

    def end(self) -> None:
        """Leave the company."""
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()
