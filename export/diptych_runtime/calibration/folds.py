"""Folds of pairs of pictures for cross-validation: pairs that share a picture stay together."""

from __future__ import annotations

import numpy as np

from diptych_runtime.calibration.disjoint_sets import DisjointSets


def group_by_picture(sides: np.ndarray) -> np.ndarray:
    """A group number (P,) for every pair (P, 2), the same for pairs that share a picture.

    They may share it by way of others; the largest groups have the lowest numbers. Where most pairs are of one such
    group, each is one by itself.
    """
    if not len(sides):
        return np.empty(0, np.int64)
    sets = DisjointSets()
    for a, b in sides.tolist():
        sets.join(a, b)
    _, which, sizes = np.unique([sets.root(a) for a in sides[:, 0].tolist()], return_inverse=True, return_counts=True)
    if sizes.max() > len(sides) / 2:
        return np.arange(len(sides))
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[which]
