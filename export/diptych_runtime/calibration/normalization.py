"""Score normalization: a score held against those of its rivals.

What looks like many pictures of a collection looks like each of them by chance more often than what looks like none.
So a query's logits are moved by how high its cohort is, the candidates behind the best few, as speaker verification
does (S-norm: Auckenthaler et al. 2000; adaptive cohorts: Matejka et al. 2017); here the cohort are the candidates
themselves, which are of the collection's kind whatever kind that is.
"""

import numpy as np

MATCHES = 5  # candidates that may match, and are no rivals
COHORT = 10  # rivals behind them
LARGEST = 3.0  # by which a logit is moved: of many true copies the best stay found


def cohort_mean(logits: np.ndarray, default: float) -> np.ndarray:
    """The mean logit (...) of each list's cohort: of its candidates (..., K) those at the places 6 to 15.

    A list of fewer has none, and gets the `default`.
    """
    logits = np.asarray(logits)
    if logits.shape[-1] < MATCHES + COHORT:
        return np.full(logits.shape[:-1], default, np.float32)
    # All candidates behind the first 15 are no better than these.
    ranked = -np.partition(-logits, (MATCHES, MATCHES + COHORT - 1), axis=-1)
    return ranked[..., MATCHES : MATCHES + COHORT].mean(-1)


def logit_shift(cohort: np.ndarray, weight: float, level: float) -> np.ndarray:
    """How much logits with these `cohort` means (...) are lowered, `LARGEST` at most.

    It is `weight` times what the means are above the `level` of most queries.
    """
    return np.clip(weight * (np.asarray(cohort) - level), -LARGEST, LARGEST).astype(np.float32)


def normalize_logits(logits: np.ndarray, weight: float, level: float) -> np.ndarray:
    """The logits (..., K) of lists of candidates, normalized by their cohorts; the order within a list stays."""
    if not weight:
        return logits
    return logits - logit_shift(cohort_mean(logits, level), weight, level)[..., None]


def shifts_of_pairs(pairs: np.ndarray, logits: np.ndarray, count: int, weight: float, level: float) -> np.ndarray:
    """Logit shifts float32 (count,) of pictures, from `pairs` int64 (P, 2) and their logits (P,): a pair is lowered by
    half the sum of both pictures' shifts. The cohort of a picture is every picture that it is paired with.
    """
    if not weight:
        return np.zeros(count, np.float32)
    sides, both = pairs.T.ravel(), np.concatenate([logits, logits])
    order = np.lexsort((-both, sides))
    sides, both = sides[order], both[order]
    lengths = np.bincount(sides, minlength=count)
    place = np.arange(len(sides)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rivals = (place >= MATCHES) & (place < MATCHES + COHORT)
    sums = np.bincount(sides[rivals], both[rivals], minlength=count)
    return logit_shift(np.where(lengths >= MATCHES + COHORT, sums / COHORT, level), weight, level)
