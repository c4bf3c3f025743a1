"""Random problems for the kernel: grids, heads and widths that fill no vector, and some that do."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from diptych_runtime.kernel.library import Library, reference_attention


class Case(NamedTuple):
    projected: np.ndarray
    table: np.ndarray
    sizes: dict[str, Any]


def cases(count: int, seed: int, strength: float = 1.0) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        heads, panels, batch = (int(rng.integers(1, most)) for most in (5, 4, 4))
        rows, cols = (int(rng.choice([1, 2, 3, 5, 7, 8, 11, 16])) for _ in range(2))
        key_width, value_width = (int(rng.choice([1, 3, 4, 8, 15, 16, 17, 32, 40])) for _ in range(2))
        joined, kinds = bool(rng.random() < 0.3), int(rng.integers(1, 3))
        shape = (batch, panels * rows * cols, heads * (2 * key_width + value_width))
        projected = rng.standard_normal(shape, np.float32) * np.float32(strength)
        reach = cols * panels if joined else cols
        table = rng.standard_normal((1 if joined else kinds, heads, rows, reach), np.float32)
        yield Case(projected, table, {"heads": heads, "panels": panels, "key_width": key_width, "joined": joined})


def instruction_sets(library: Library) -> list[str]:
    """Those that this processor can run."""
    usable = []
    for name in ("avx512", "avx2", "generic"):
        try:
            library.attend(
                np.zeros((1, 1, 3)), np.zeros((1, 1, 1, 1)), heads=1, panels=1, key_width=1, instructions=name
            )
        except ValueError:
            continue
        usable.append(name)
    return usable


def largest_difference(library: Library, count: int, seed: int, strength: float = 1.0) -> float:
    """Between the kernel, by every set of instructions, and the definition."""
    largest = 0.0
    for projected, table, sizes in cases(count, seed, strength):
        expected = reference_attention(projected, table, **sizes)
        for name in instruction_sets(library):
            got = library.attend(projected, table, **sizes, instructions=name)
            # np.max, unlike max, keeps a NaN.
            largest = float(np.max([largest, np.abs(got - expected).max()]))
    return largest
