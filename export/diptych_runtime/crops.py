"""A query in several crops: what is in it that covers a part of it is found by that part.

A picture pasted into another one, or framed by a page or a phone, is a part of the query and the whole of what is
stored. So the query alone is cropped: what is stored, and what that costs, stay as they are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Where the crops lie in what they leave free, across and down: in the corners and in the middle.
PLACES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))
AGAIN = 32  # candidates that are looked at again, in the crop that found them


def crop_boxes(share: float) -> list[tuple[float, float, float, float]]:
    """The left, top, right and bottom of the crops, 0 to 1.

    Each is `share` of the picture's sides; there are none where it is 0.
    """
    if not share:
        return []
    starts = [(x * (1 - share), y * (1 - share)) for x, y in PLACES]
    return [(x, y, min(1, x + share), min(1, y + share)) for x, y in starts]


def nearest_of_all(
    found: Sequence[tuple[np.ndarray, np.ndarray]], count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The merged results of several searches, the whole query's first: (keys (n,), cosines float32 (n,)) of each,
    nearest first.

    Returns the `count` nearest to any of them, each key once with its highest cosine, and by which search it was found
    so, int (count,).
    """
    best: dict[Any, tuple[float, int]] = {}
    for view, (keys, cosines) in enumerate(found):
        for key, cosine in zip(keys.tolist(), cosines.tolist(), strict=True):
            if key not in best or cosine > best[key][0]:
                best[key] = (cosine, view)
    order = sorted(best, key=lambda key: -best[key][0])[:count]  # equals in the order they were found in
    keys = np.array(order, found[0][0].dtype)
    return keys, np.array([best[key][0] for key in order], np.float32), np.array([best[key][1] for key in order], int)


def second_looks(logits: np.ndarray, views: np.ndarray) -> np.ndarray:
    """Which candidates to look at again, int (n,): of the `AGAIN` best by their logits (K,) those that a crop found,
    by the number (K,) of the view that did, where 0 is the whole. The better of both looks counts.
    """
    best = np.argsort(-logits, kind="stable")[:AGAIN]
    return best[views[best] > 0]
