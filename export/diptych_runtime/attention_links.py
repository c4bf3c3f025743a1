"""The strongest attention from patch to patch across the seam."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Link(NamedTuple):
    """A patch of the first picture and one of the second, by number, and the share of attention between them."""

    first: int
    second: int
    share: float


def strongest_links(attention: np.ndarray, count: int) -> list[Link]:
    """The strongest entries of a map (T, T) of `Runtime.attention`, strongest first, each patch in one of them at most.

    Without that rule a single patch that everything looks at would take them all.
    """
    left = np.array(attention, float)
    links = []
    for _ in range(min(count, len(left))):
        row, column = (int(place) for place in np.unravel_index(left.argmax(), left.shape))
        links.append(Link(row, column, float(attention[row, column])))
        left[row], left[:, column] = -1, -1
    return links
