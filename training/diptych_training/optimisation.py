"""The optimisation of any network: AdamW by a warm cosine, the running average of the weights, and their state."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from diptych_runtime.atomic import replacing_file
from diptych_training.errors import DataError

Result = TypeVar("Result")


@dataclass(frozen=True)
class Budget:
    """A number of `steps` of `batch` examples each, by AdamW with warm-up and a cosine schedule.

    `rate` is the peak of the learning rate, `decay` that of the weights, and `average` the decay of their running
    average; 0 keeps none.
    """

    steps: int = 600
    batch: int = 32
    rate: float = 2e-3
    warmup: int = 50
    decay: float = 0.05
    average: float = 0.0

    def __post_init__(self) -> None:
        if (
            min(self.steps, self.batch, self.warmup) < 1
            or self.rate <= 0
            or self.decay < 0
            or not 0 <= self.average < 1
        ):
            raise DataError(
                "steps, batch, warmup and rate must be positive, decay 0 or more and average from 0 to below 1, got "
                f"{asdict(self)}"
            )


def warm_cosine(rate: float, step: int, steps: int, warmup: int) -> float:
    """The learning rate of a step, counted from 0: a linear warm-up to `rate`, under a cosine that ends at 0."""
    return rate * min(1.0, (step + 1) / warmup) * (0.5 + 0.5 * math.cos(math.pi * step / steps))


class Optimisation:
    """A network that learns step by step, and `average`, the running mean of its weights."""

    advice = "begin another run with a lower learning.rate"

    def __init__(
        self, network: nn.Module, budget: Any, *, steps: int, groups: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Parameters in `groups` may have a `rate` of their own, a factor of the budget's."""
        self.network, self.budget, self.steps, self.step = network, budget, steps, 0
        self.average = copy.deepcopy(network).requires_grad_(False) if budget.average else network
        parameters = network.parameters() if groups is None else groups
        self.optimiser = torch.optim.AdamW(parameters, lr=budget.rate, weight_decay=budget.decay)
        self._rates = [group.pop("rate", 1.0) for group in self.optimiser.param_groups]

    @property
    def rate(self) -> float:
        """The learning rate of the present step."""
        return warm_cosine(self.budget.rate, self.step, self.steps, self.budget.warmup)

    def take_step(self, differentiate: Callable[[], Result]) -> Result:
        """Take one step by the gradients that `differentiate` leaves in the network; return what it returns."""
        self.set_rates()
        self.network.train()
        found = differentiate()
        self.update()
        return found

    def set_rates(self) -> None:
        """Give the optimiser the learning rate of the present step."""
        for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = self.rate * rate

    def update(self) -> None:
        """Clip the gradients and move the weights by them. Raises `DataError` where a gradient is not finite."""
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), getattr(self.budget, "clip", 1.0))
        if not torch.isfinite(norm):
            raise DataError(f"the gradient of step {self.step} is not finite: {self.advice}")
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not self.network:
            self._update_average()
        self.step += 1

    def _update_average(self) -> None:
        weight = min(self.budget.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for mean, value in zip(self.average.state_dict().values(), self.network.state_dict().values(), strict=True):
                mean.lerp_(value, 1 - weight) if mean.is_floating_point() else mean.copy_(value)

    def save(self, path: Path, **others: Any) -> None:
        """Write the state with some `others`: tensors, numbers, texts, and lists and dictionaries of them."""
        parts = {"network": self.network, "average": self.average, "optimiser": self.optimiser}
        save_state(path, parts, step=self.step, torch=torch.get_rng_state(), **others)

    def restore(self, path: Path, advice: str) -> dict[str, Any]:
        """Go on from a state, to the same numbers; return the others."""
        parts = {"network": self.network, "average": self.average, "optimiser": self.optimiser}
        others = restore_state(path, parts, advice)
        self.step = others["step"]
        if "torch" in others:
            torch.set_rng_state(others["torch"])
        return others


def save_state(path: Path, parts: Mapping[str, Any], **others: Any) -> None:
    """Write the state of some networks and optimisers, and others beside it: whole or not at all."""
    with replacing_file(path) as unfinished:
        torch.save({name: part.state_dict() for name, part in parts.items()} | others, unfinished)


def restore_state(
    path: Path, parts: Mapping[str, Any], advice: str = "remove it to begin that training anew"
) -> dict[str, Any]:
    """Restore parts in place, and return the others. Raises `DataError`, with advice, where the file is damaged."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(state.pop(name))
        return state
    except Exception as error:  # of every kind, from zip files to shapes
        reason = (str(error) or type(error).__name__).splitlines()[0].split(". ")[0]
        raise DataError(f"{path} is damaged ({reason}): {advice}") from None
