"""Closer looks at pairs of picture files, taken side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np

from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.verification import describe, verify

_VIEWS = 512  # pictures whose keypoints are kept, 2 MB each at most


def take_looks(pairs: Sequence[tuple[Path, Path]], threads: int) -> Iterator[Evidence]:
    """The evidence of a closer look at each pair of picture files, in their order."""
    described = lru_cache(_VIEWS)(describe)
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda pair: verify(*map(described, pair)), pairs)


def spread_looks(taken: np.ndarray, looks: Iterable[Evidence]) -> list[Evidence | None]:
    """The evidence of the pairs that were `taken`, bool (P,), in their order, and None of the others."""
    found = iter(list(looks))
    return [next(found) if one else None for one in taken.tolist()]
