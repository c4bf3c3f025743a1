"""Metrics of groups of copies where it is known which picture is a copy of which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb
from typing import Any


def figures(groups: Sequence[Sequence[str]], truth: Mapping[str, str]) -> dict[str, Any]:
    """Precision and recall of groups of names, the keeper first; `truth` has the original of every name.

    `pairs` are all within a group, of those that have one original; `wrong` counts pictures that would go though their
    keeper shows another photo; `to_original` is the share of copies that are in their original's group.
    """
    place = {name: number for number, group in enumerate(groups) for name in group}
    inside = sum(comb(len(group), 2) for group in groups)
    right = sum(comb(n, 2) for group in groups for n in Counter(truth[name] for name in group).values())
    possible = sum(comb(n, 2) for n in Counter(truth.values()).values())
    going = sum(len(group) - 1 for group in groups)
    wrong = sum(truth[name] != truth[keeper] for keeper, *others in groups for name in others)
    copies = [(name, original) for name, original in truth.items() if name != original]
    found = sum(name in place and place[name] == place.get(original) for name, original in copies)
    return {
        "groups": len(groups),
        "could_go": going,
        "wrong": wrong,
        "wrong_share": wrong / going if going else 0.0,
        "pair_precision": right / inside if inside else 1.0,
        "pair_recall": right / possible if possible else 1.0,
        "to_original": found / len(copies) if copies else 1.0,
    }
