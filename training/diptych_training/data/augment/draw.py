"""Random numbers for a batch of pictures."""

import torch
from torch import Generator, Tensor


class Draw:
    """Random numbers for a batch, one a picture or a whole shape of them, on the generator's device."""

    def __init__(self, count: int, generator: Generator) -> None:
        self.count, self.generator = count, generator

    def uniform(self, *shape: int) -> Tensor:
        """Uniform in [0, 1): (n, *shape)."""
        return torch.rand(self.count, *shape, generator=self.generator, device=self.generator.device)

    def normal(self, *shape: int) -> Tensor:
        """Normal with deviation 1: (n, *shape)."""
        return torch.randn(self.count, *shape, generator=self.generator, device=self.generator.device)

    def between(self, low: float, high: float) -> Tensor:
        """Uniform in [low, high): (n,)."""
        return self.uniform() * (high - low) + low

    def chance(self, probability: float) -> Tensor:
        """True with a probability: bool (n,)."""
        return self.uniform() < probability

    def among(self, choices: int) -> Tensor:
        """Uniform among 0 to choices - 1: int64 (n,)."""
        return torch.randint(choices, (self.count,), generator=self.generator, device=self.generator.device)
