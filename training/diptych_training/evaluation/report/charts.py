"""The charts of a report: precision and recall, recall by false positives, reliability, scores of both kinds."""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from diptych_training.evaluation.report.chart import Axis, Chart
from diptych_training.evaluation.report.markup import tag
from diptych_training.evaluation.series import Series
from diptych_training.metrics import Pool, Ranking

_SHARES = tuple((share, f"{share:g}") for share in (0, 0.2, 0.4, 0.6, 0.8, 1))
_ODDS = (0.0001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.9999)

LIMIT = 1e-5  # probabilities are shown no closer than this to 0 and 1
_BINS = 44
_STRIP = 0.17  # below the reliability plot, for the counts


def kinds(series: Sequence[Series]) -> dict[str, str]:
    """The class of every method's line: the last is the model's re-ranked order, the one before its first stage."""
    names = [one.name for one in series]
    roles = dict(zip(reversed(names), ("ours", "first"), strict=False))
    others = [name for name in names if name not in roles]
    return roles | {name: f"other other-{place % 6}" for place, name in enumerate(others)}


def precision_recall_chart(series: Sequence[Series]) -> Element | None:
    """One line a method; None where no method had a match to find."""
    chart = Chart(Axis("recall", 0, 1, _SHARES), Axis("precision", 0, 1, _SHARES), "Precision by recall")
    return chart.svg() if _lines(chart, series, [precision_recall(one.ranking) for one in series]) else None


def false_positives_chart(series: Sequence[Series], thresholds: Mapping[str, Any]) -> Element | None:
    """One line a method over a logarithmic false-positive rate, and the model's thresholds as dots."""
    curves = [recall_by_false_positives(one.ranking) for one in series]
    rates = [curve[curve[:, 0] > 0, 0].min() for curve in curves if curve is not None]
    decades = int(np.ceil(-np.log10(min(rates, default=0.1)) - 1e-9))
    ticks = [(10.0**-power, percent(10.0**-power)) for power in range(max(decades, 1), -1, -1)]
    x = Axis("false-positive rate among scored pairs", ticks[0][0], 1, ticks, log=True)
    chart = Chart(x, Axis("recall", 0, 1, _SHARES), "Recall by false-positive rate")
    if not _lines(chart, series, curves):
        return None
    for rate, at in thresholds.items():
        passed = percent(at["false_positive_rate"], ".2f")
        text = f"threshold for {percent(rate)}: {passed} passed, recall {at['recall']:.3f}"
        chart.dot(at["false_positive_rate"], at["recall"], text, "ours")
    return chart.svg()


def reliability_chart(bins: Sequence[Mapping[str, Any]]) -> Element:
    """The share of matches among pairs of a stated probability, by bins; the strip below tells how many pairs a bin
    has.
    """
    x, y = Axis("stated probability", 0, 1, _SHARES), Axis("share that matches", -_STRIP, 1, _SHARES)
    chart = Chart(x, y, "Reliability of the stated probabilities")
    most = max(np.log1p(one["pairs"]) for one in bins)
    for one in bins:
        height = 0.6 * _STRIP * np.log1p(one["pairs"]) / most - _STRIP
        chart.bars(np.array([one["from"], one["to"]]), np.array([height]), "count")
        chart.note((one["from"] + one["to"]) / 2, height, short(one["pairs"]))
    chart.line(np.array([[0, 0], [1, 1]]), "even")
    chart.line(np.array([[one["confidence"], one["frequency"]] for one in bins]), "ours")
    for one in bins:
        text = f"{one['pairs']:,} pairs: stated {one['confidence']:.3f}, matching {one['frequency']:.3f}"
        chart.dot(one["confidence"], one["frequency"], text, "ours")
    return chart.svg()


def scores_chart(probabilities: np.ndarray, labels: np.ndarray, thresholds: Mapping[str, Any]) -> Element:
    """The histograms of the scores of matches and of others, each kind's bars summing to 1, on an axis of log-odds."""
    edges, matches, others = histograms(probabilities, labels)
    top = max(float(np.max([matches, others])), 0.05)
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2) if top / step <= 5.5)
    ticks = [(float(value), percent(value, ".0f")) for value in np.arange(0, top + step / 2, step)]
    odds = [(float(log_odds(np.array(value))), f"{value:g}") for value in _ODDS]
    x, y = Axis("relevance score", edges[0], edges[-1], odds), Axis("share of its kind", 0, top * 1.12, ticks)
    chart = Chart(x, y, "Scores of matches and of others")
    chart.bars(edges, others, "others")
    chart.bars(edges, matches, "matches")
    for rate, at in thresholds.items():
        if LIMIT < at["threshold"] < 1 - LIMIT:
            chart.upright(float(log_odds(np.array(at["threshold"]))), percent(rate))
    return chart.svg()


def percent(rate: str | float, digits: str = "g") -> str:
    """A rate in percent, by default without needless digits."""
    return f"{100 * float(rate):{digits}} %"


def short(count: int) -> str:
    """A count in at most four characters."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.2g}{unit}" if count < 10 * size else f"{count / size:.0f}{unit}"
    return str(count)


def legend(series: Sequence[Series]) -> Element:
    """Which line is whose, the model's own first."""
    items = []
    for name, kind in kinds(series).items():
        swatch = tag("svg", tag("line", x1=1, x2=27, y1=5, y2=5, class_=f"line {kind}"), viewBox="0 0 28 10")
        items.append(tag("li", swatch, name))
    return tag("ul", *items, class_="legend")


def _lines(chart: Chart, series: Sequence[Series], curves: Sequence[np.ndarray | None]) -> bool:
    """Draw one line a method, the model's own on top; False where there is none to draw."""
    classes = kinds(series)
    for one, curve in zip(series, curves, strict=True):
        if curve is not None:
            chart.line(curve, classes[one.name])
    return any(curve is not None for curve in curves)


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
