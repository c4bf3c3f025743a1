"""The peak memory of a computation, counted at torch's allocator."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch

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
    for event in sorted(_allocations(tracer.kineto_results.experimental_event_tree()), key=lambda e: e.start_time_ns):
        block, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        if size < 0:
            # What an earlier call had made, and this one let go, was not its own.
            size = -held.pop(block, 0)
        else:
            held[block] = size
        total += size
        most = max(most, total)
    return most, result


def _allocations(events: Iterable[Any]) -> Iterator[Any]:
    for event in events:
        if event.name == "[memory]":
            yield event
        yield from _allocations(event.children)
