"""The layout of a candidate index, by its size or as requested: in one list, which is exact, or in many."""

from __future__ import annotations

import math
from typing import Literal, get_args

Kind = Literal["auto", "exact", "ivf"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# Measured with embeddings of photos on one core: an exact search takes 2 ms of 100,000, 5 ms of 250,000 and 21 ms of a
# million, one in lists about 1 and 2 ms; the pairs of 100 candidates take 52 ms of a core after it. So an exact search
# stays below a tenth of what a search costs, and lists come in before it is more.
MANY = 250_000


def lists_for(count: int, kind: Kind, present: int = 1) -> int:
    """Into how many lists so many vectors go; `present` lists keep a collection about the bound from going to and fro.

    About the square root, as a power of 2: then the centroids cost a search as much as a list or two.
    """
    bound = MANY if present == 1 else MANY // 2
    if count < 2 or kind == "exact" or (kind == "auto" and count < bound):
        return 1
    return 2 ** math.ceil(math.log2(count) / 2)


def needs_relayout(count: int, kind: Kind, present: int, made_for: int) -> bool:
    """True if an index of `present` lists, made for `made_for` vectors, should be made anew for `count`."""
    if (lists_for(count, kind, present) > 1) != (present > 1):
        return True
    return present > 1 and not made_for / 2 <= count <= made_for * 2
