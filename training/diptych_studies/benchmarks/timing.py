"""Operators measured in turns, so that a disturbance of the machine meets all of them alike."""

import math
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from diptych_studies.flops import count_flops, count_parameters

WAYS = ("forward", "training")
# A sample repeats a fast call until it has lasted this long: the clock's own share stays small.
SAMPLE_SECONDS = 0.01


@dataclass
class Contender:
    """One operator at one place with an input and a gradient of its output; `row` says which it is."""

    row: dict[str, Any]
    module: nn.Module
    x: Tensor
    gradient: Tensor
    calls: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})

    def forward(self) -> Tensor:
        """The operator as it serves: nothing is kept for gradients."""
        with torch.inference_mode():
            return self.module(self.x)

    def training(self) -> tuple[Tensor | None, ...]:
        """The operator as it learns: forward, then the gradients of the input and of every parameter."""
        x = self.x.detach().requires_grad_()
        wanted = [x, *(p for p in self.module.parameters() if p.requires_grad)]
        return torch.autograd.grad(self.module(x), wanted, self.gradient, allow_unused=True)

    def warm_up(self) -> None:
        """Call each way twice, and choose how many calls a sample has."""
        for way in WAYS:
            self.time_calls(way, 1)
            self.calls[way] = max(1, math.ceil(SAMPLE_SECONDS / self.time_calls(way, 1)))

    def time_calls(self, way: str, calls: int) -> float:
        """The mean time of so many calls, in seconds a call."""
        call = self._select_call(way)
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - begun) / calls

    def peak_bytes(self, way: str) -> int:
        """The most memory held at one moment beside input, gradient of the output, and parameters."""
        return peak_bytes(self._select_call(way))[0]

    def _select_call(self, way: str) -> Callable[[], object]:
        self.module.train(way == "training")
        return self.forward if way == "forward" else self.training


def run_race(contenders: Sequence[Contender], repeats: int, step: Callable[[], object]) -> None:
    """Time every contender once a round, each round in another order; `step` is called after it."""
    for contender in contenders:
        contender.warm_up()
    for number in range(repeats):
        for contender in random.Random(number).sample(contenders, len(contenders)):
            for way in WAYS:
                contender.seconds[way].append(contender.time_calls(way, contender.calls[way]))
        step()


def summarize_contender(contender: Contender, yardstick: Contender) -> dict[str, Any]:
    """The contender's row with its times, memory and operations.

    A ratio compares times of the same round only.
    """
    row = {
        **contender.row,
        "parameters": count_parameters(contender.module),
        "flops": count_flops(contender.module, contender.x),
    }
    for way in WAYS:
        low, median, high = np.quantile(contender.seconds[way], (0.25, 0.5, 0.75)).tolist()
        ratio = np.median(np.divide(contender.seconds[way], yardstick.seconds[way])).item()
        peak = contender.peak_bytes(way)
        row[way] = {"median": median, "low": low, "high": high, "ratio": ratio, "peak_bytes": peak}
    return row


T = TypeVar("T")


def peak_bytes(call: Callable[[], T]) -> tuple[int, T]:
    """The most bytes that tensors made during `call()` hold at one moment, and the value of the call.

    Example: `peak_bytes(lambda: A @ B @ C)` counts A @ B and the result, which are alive together, and neither A nor B
    nor C. Every allocation and release of torch's CPU allocator counts, those inside a kernel too; what a library such
    as oneDNN keeps for itself does not.
    """
    # Without this the tracer announces its start and stop on standard error.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    tracer: Any = torch.autograd.profiler.profile(profile_memory=True)  # its events are typed nowhere
    with tracer:
        result = call()
    most = total = 0
    held: dict[int, int] = {}
    for event in sorted(
        _list_allocations(tracer.kineto_results.experimental_event_tree()), key=lambda e: e.start_time_ns
    ):
        block, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        if size < 0:
            # What an earlier call had made, and this one let go, was not its own.
            size = -held.pop(block, 0)
        else:
            held[block] = size
        total += size
        most = max(most, total)
    return most, result


def _list_allocations(events: Iterable[Any]) -> Iterator[Any]:
    for event in events:
        if event.name == "[memory]":
            yield event
        yield from _list_allocations(event.children)
