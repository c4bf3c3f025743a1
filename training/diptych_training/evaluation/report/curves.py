"""From scores to the points of curves: plain arrays, no drawing."""

import numpy as np

from diptych_training.metrics import Pool, Ranking

LIMIT = 1e-5  # probabilities are shown no closer than this to 0 and 1
_BINS = 44


def counted(ranking: Ranking) -> tuple[np.ndarray, np.ndarray] | None:
    """Matches and others (places,) down to each distinct score of all queries in one list, best first.

    None where nothing was scored.
    """
    scores, relevant = ranking.scores.ravel(), ranking.relevant.ravel()
    return Pool(scores, relevant).curve() if len(scores) else None


def precision_recall(ranking: Ranking) -> np.ndarray | None:
    """Recall and precision (places, 2), from the best score down; None without a match to find."""
    places, matches = counted(ranking), int(ranking.positives.sum())
    if places is None or not matches:
        return None
    found, others = places
    return np.stack([found / matches, found / (found + others)], 1)


def recall_by_false_positives(ranking: Ranking) -> np.ndarray | None:
    """False-positive rate among the scored others and recall (places, 2), from the best score down.

    None without a match to find or without others. Places without a false positive are not left out: their rate is 0.
    """
    places, matches = counted(ranking), int(ranking.positives.sum())
    if places is None or not matches or not places[1][-1]:
        return None
    found, others = places
    return np.stack([others / others[-1], found / matches], 1)


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), p held within `LIMIT` of 0 and 1."""
    p = np.clip(np.asarray(probabilities, np.float64), LIMIT, 1 - LIMIT)
    return np.log(p / (1 - p))


def histograms(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges (bins + 1,) in log-odds, and the share of the matches and of the others in each bin, (bins,) twice.

    The shares of a kind sum to 1, or are 0 where there is none of it.
    """
    reach = log_odds(np.array(1.0))
    edges = np.linspace(-reach, reach, _BINS + 1)
    odds = log_odds(probabilities)
    shares = [np.histogram(odds[kind], edges)[0] / max(int(kind.sum()), 1) for kind in (labels, ~labels)]
    return edges, shares[0], shares[1]
