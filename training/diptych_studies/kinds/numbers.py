"""`diptych study numbers`: which numbers of a closer look pay where they were not fitted.

A probability of a copy is fitted to some of the numbers of each pair (`calibration.evidence.NUMBERS`, and `MORE`) and
measured on a kind of pictures that is left out, and on a family of edits that is left out too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import format_table
from diptych_runtime.calibration.evidence import NUMBERS, Evidence, numbers_of
from diptych_runtime.runtime import Runtime
from diptych_studies.intervals import bootstrap
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.fitting import Pairs, even_kinds, fit_logistic, look_closer
from diptych_studies.kinds.planted import KINDS, add_odd_copies, open_kinds
from diptych_training.metrics import Pool

FAMILIES = ("easy", "hard", "odd")  # of edits: both repertoires, and what neither has
NETWORK = "network alone"
# What else could be weighed of a pair that can be laid over each other, from its log-odds by the network and the look.
MORE: Mapping[str, Callable[[float, Evidence], float]] = {
    "odds where registered": lambda odds, seen: odds,
    "coverage": lambda odds, seen: seen.coverage,
    "inliers": lambda odds, seen: float(np.log1p(seen.inliers)),
    "matched": lambda odds, seen: seen.inliers / (seen.keypoints + 20),
}
NAMES = (*NUMBERS, *MORE)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "registered": NUMBERS[:3],
    "released": NUMBERS,
    **{f"released, {name}": (*NUMBERS, name) for name in MORE},
}
_FEWEST = 5  # copies of a kind of which something can be said
_DRAWS = 300


@dataclass(frozen=True)
class Known:
    """The pairs of a kind with all their numbers, float64 (P, F), and the `family` of the edits that made them, str
    (P,), empty for two pictures of which neither is a copy.
    """

    pairs: Pairs
    numbers: np.ndarray
    family: np.ndarray

    @classmethod
    def of_kind(cls, examined: Examined, pairs: Pairs) -> Known:
        """The numbers of the pairs of a kind."""
        return cls(pairs, numbers_and_more(pairs), name_families(examined.planted.names, pairs.found))

    def without_family(self, family: str) -> Known:
        """What is left of a kind without the pairs of a family."""
        kept = self.family != family
        seen = [one for one, which in zip(self.pairs.seen, kept, strict=True) if which]
        pairs = self.pairs
        pairs = replace(
            pairs, found=pairs.found[kept], relevance=pairs.relevance[kept], seen=seen, copies=pairs.copies[kept]
        )
        return Known(pairs, self.numbers[kept], self.family[kept])


def name_families(names: Sequence[str], pairs: np.ndarray) -> np.ndarray:
    """The families of the edits that made the pairs int64 (P, 2) of named pictures, str (P,), empty for none."""
    made = np.array([name.partition("/")[0] for name in names])
    made[~np.isin(made, FAMILIES)] = ""
    first, second = made[pairs.T]
    return np.where(second == "", first, second)


def numbers_and_more(pairs: Pairs) -> np.ndarray:
    """The numbers `NAMES` of pairs, float64 (P, N)."""
    known = numbers_of(pairs.relevance, pairs.seen)
    more = [
        [measure(odds, seen) if seen is not None and seen.is_registered else 0.0 for measure in MORE.values()]
        for odds, seen in zip(known[:, 1].tolist(), pairs.seen, strict=True)
    ]
    return np.column_stack([known, np.array(more).reshape(-1, len(MORE))])


def study_numbers(
    runtime: Runtime,
    directory: Path,
    folder: Path,
    *,
    kinds: Sequence[str] = KINDS,
    choices: Mapping[str, Sequence[str]] = CHOICES,
    begin: Callable[[str], Callable[[int], object]] = lambda kind: lambda n: None,
) -> dict[str, Any]:
    """Measure every choice of numbers, each kind left out, and each family of edits of it left out as well.

    Raises `DataError` for unknown kinds and for fewer than two.
    """
    known = []
    for planted in open_kinds(kinds, folder, directory / "sets"):
        examined = Examined(runtime, add_odd_copies(planted), begin(planted.kind))
        known.append(Known.of_kind(examined, look_closer(examined)))
    left_out = {"no family": "", **{f"{family} edits": family for family in FAMILIES}}
    return {
        "model": runtime.name,
        "kinds": [one.pairs.kind for one in known],
        "left_out": {title: measure_choices(known, family, choices) for title, family in left_out.items()},
    }


def measure_choices(
    known: Sequence[Known], family: str, choices: Mapping[str, Sequence[str]] = CHOICES
) -> dict[str, dict[str, Any]]:
    """For every choice of numbers the average precision of each kind by a fit to the others, its mean, and the kind in
    which the gain over the network alone is least, with its 95 % interval.

    With a `family` of edits the fit has none of them, and no other copies are measured.
    """
    found: dict[str, list[tuple[str, Ranking, Ranking]]] = {}
    for place, one in enumerate(known):
        others = [*known[:place], *known[place + 1 :]]
        if family:
            others = [other.without_family(family) for other in others]
        copies = one.pairs.copies
        measured = ~copies | (one.family == family) if family else np.ones(len(copies), bool)
        if copies[measured].sum() < _FEWEST:
            continue
        owner = np.unique(one.pairs.found[measured, 1], return_inverse=True)[1]
        rank = partial(Ranking, copies=copies[measured], owner=owner)
        answers = {NETWORK: one.pairs.relevance}
        answers |= {choice: fit_numbers(others, names, one) for choice, names in choices.items()}
        alone = rank(one.pairs.relevance[measured])
        for choice, answer in answers.items():
            found.setdefault(choice, []).append((one.pairs.kind, rank(answer[measured]), alone))
    return {choice: _summarise_kinds(rankings) for choice, rankings in found.items()}


def _summarise_kinds(rankings: Sequence[tuple[str, Ranking, Ranking]]) -> dict[str, Any]:
    """The figures of `measure_choices` from each kind's ranking by a choice, and by the network alone."""
    kind, ranking, alone = min(rankings, key=lambda one: one[1].precision() - one[2].precision())
    return {
        "mean": float(np.mean([ranking.precision() for _, ranking, _ in rankings])),
        "least": {
            "kind": kind,
            "gain": ranking.precision() - alone.precision(),
            "interval": bootstrap(lambda drawn: ranking.gain_over(alone, drawn), ranking.owners, draws=_DRAWS),
        },
        "kinds": {kind: ranking.precision() for kind, ranking, _ in rankings},
    }


def fit_numbers(others: Sequence[Known], names: Sequence[str], one: Known) -> np.ndarray:
    """The log-odds float64 (P,) of a kind's pairs by a logistic regression on the named numbers of other kinds."""
    places = [NAMES.index(name) for name in names]
    labels = [other.pairs.copies for other in others]
    numbers = np.concatenate([other.numbers[:, places] for other in others])
    weights = fit_logistic(numbers, np.concatenate(labels), even_kinds(labels))
    return one.numbers[:, places] @ weights


class Ranking:
    """Pairs ranked by a score (P,), each owned by a picture."""

    def __init__(self, scores: np.ndarray, *, copies: np.ndarray, owner: np.ndarray) -> None:
        self._pool, self._copies, self._owner = Pool(scores, copies, owner), copies, owner
        self.owners = int(owner.max()) + 1

    def precision(self, counts: np.ndarray | None = None) -> float:
        """The average precision, or that in which each owner counts so often."""
        positives = self._copies.sum() if counts is None else counts[self._owner] @ self._copies
        return self._pool.average_precision(int(positives), counts)

    def gain_over(self, other: Ranking, drawn: np.ndarray) -> float:
        """The gain in average precision over another ranking, of owners drawn anew."""
        counts = np.bincount(drawn, minlength=self.owners)
        return self.precision(counts) - other.precision(counts)


def numbers_text(result: Mapping[str, Any]) -> str:
    """A table for what was left out beside a kind: the choices, best first by the least gain."""
    parts = []
    for title, choices in result["left_out"].items():
        rows = []
        for choice, row in sorted(choices.items(), key=lambda item: -item[1]["least"]["gain"]):
            low, high = row["least"]["interval"]
            least = f"{row['least']['gain']:+.3f} ({low:+.3f} to {high:+.3f}) {row['least']['kind']}"
            rows.append([choice, f"{row['mean']:.3f}", least])
        head = ["numbers", "mean average precision", "least gain over the network alone"]
        parts.append(f"left out: a kind and {title}\n{format_table(head, rows)}")
    return "\n\n".join(parts)
