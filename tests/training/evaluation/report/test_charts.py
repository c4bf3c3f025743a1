"""What the charts of a report draw: the points of the curves, and that they lie in the frame."""

from xml.etree.ElementTree import Element, fromstring, tostring

import numpy as np
import pytest

from diptych_training.evaluation.report.chart import HEIGHT, WIDTH, Axis, Chart
from diptych_training.evaluation.report.charts import (
    LIMIT,
    false_positives_chart,
    histograms,
    kinds,
    legend,
    log_odds,
    percent,
    precision_recall,
    precision_recall_chart,
    recall_by_false_positives,
    reliability_chart,
    scores_chart,
    short,
)
from diptych_training.evaluation.report.markup import document, tag
from diptych_training.evaluation.series import Series
from diptych_training.metrics import Ranking

THRESHOLDS = {"0.01": {"threshold": 0.9, "false_positive_rate": 0.0, "recall": 0.25}}
BINS = [
    {"from": 0.0, "to": 0.2, "pairs": 71, "confidence": 0.1, "frequency": 0.0},
    {"from": 0.8, "to": 1.0, "pairs": 5, "confidence": 0.95, "frequency": 1.0},
]


def ranking(queries: int = 5, candidates: int = 7, seed: int = 0, matches: int = 1) -> Ranking:
    rng = np.random.default_rng(seed)
    relevant = np.zeros((queries, candidates), bool)
    relevant[:, :matches] = True
    scores = -np.sort(-rng.normal(size=(queries, candidates)), 1)
    return Ranking(scores, rng.permuted(relevant, axis=1), np.full(queries, matches > 0))


def points(chart: Element) -> np.ndarray:
    """All places of all lines and areas of a chart."""
    marks = [mark for mark in chart.iter() if mark.get("points")]
    pairs = [pair.split(",") for mark in marks for pair in mark.get("points", "").split()]
    return np.array(pairs, float)


def test_the_curves_are_those_of_the_definition_with_ties_as_one_place() -> None:
    one = Ranking(np.array([[3.0, 2, 2], [5, 4, 1]]), np.array([[1, 0, 1], [0, 1, 0]], bool), np.array([2, 2]))
    np.testing.assert_allclose(
        np.asarray(precision_recall(one)), [[0, 0], [0.25, 1 / 2], [0.5, 2 / 3], [0.75, 3 / 5], [0.75, 1 / 2]]
    )
    np.testing.assert_allclose(
        np.asarray(recall_by_false_positives(one)), [[1 / 3, 0], [1 / 3, 0.25], [1 / 3, 0.5], [2 / 3, 0.75], [1, 0.75]]
    )


def test_there_is_no_curve_without_matches_without_others_and_without_candidates() -> None:
    assert precision_recall(ranking(matches=0)) is None
    assert recall_by_false_positives(ranking(matches=0)) is None
    everything = Ranking(np.ones((2, 1)), np.ones((2, 1), bool), np.ones(2, bool))
    assert precision_recall(everything) is not None
    assert recall_by_false_positives(everything) is None
    assert precision_recall(Ranking(np.ones((2, 0)), np.ones((2, 0), bool), np.ones(2, bool))) is None
    nothing = (Series("first stage", ranking(matches=0)), Series("re-ranked", ranking(matches=0, seed=1)))
    assert precision_recall_chart(nothing) is None
    assert false_positives_chart(nothing, THRESHOLDS) is None


def test_histograms_share_out_each_kind_and_hold_probabilities_of_zero_and_one() -> None:
    probabilities, labels = np.array([0, 0.5, 1, 1, 0.2, 0.9, 1e-9]), np.array([0, 1, 1, 1, 0, 0, 0], bool)
    edges, matches, others = histograms(probabilities, labels)
    assert matches.sum() == pytest.approx(1)
    assert others.sum() == pytest.approx(1)
    assert (matches[-1], others[0]) == (pytest.approx(2 / 3), pytest.approx(0.5))
    assert edges[-1] == -edges[0] == pytest.approx(np.log((1 - LIMIT) / LIMIT))
    assert log_odds(np.array(0.75)) == pytest.approx(np.log(3))
    assert histograms(probabilities, np.zeros(7, bool))[1].sum() == 0


def test_every_place_of_every_chart_lies_in_the_frame() -> None:
    series = [Series(name, ranking(17, 23, seed)) for seed, name in enumerate(("phash", "first stage", "re-ranked"))]
    rng = np.random.default_rng(4)
    labels = rng.random(300) < 0.3
    charts = [
        precision_recall_chart(series),
        false_positives_chart(series, THRESHOLDS),
        reliability_chart(BINS),
        scores_chart(np.where(labels, 1.0, rng.random(300)), labels, THRESHOLDS | {"0.0001": THRESHOLDS["0.01"]}),
    ]
    for chart in charts:
        assert chart is not None
        places = points(chart)
        assert len(places) > 4
        assert np.isfinite(places).all()
        assert (places >= 0).all()
        assert (places <= [WIDTH, HEIGHT]).all()
        for mark in chart.iter():
            for key in ("x", "x1", "x2", "cx"):
                assert 0 <= float(mark.get(key, 0)) <= WIDTH
            for key in ("y", "y1", "y2", "cy"):
                assert 0 <= float(mark.get(key, 0)) <= HEIGHT


def test_a_value_is_drawn_where_it_belongs() -> None:
    chart = Chart(Axis("x", 0.01, 1, [(0.1, "0.1")], log=True), Axis("y", 0, 2, []), "label")
    chart.line(np.array([[0.01, 0], [0.1, 1], [1, 2], [5, 9]]), "ours")
    (left, bottom), (middle, half), (right, top) = points(chart.svg())
    assert (left < middle < right, top < half < bottom) == (True, True)
    assert (middle, half) == (pytest.approx((left + right) / 2, abs=0.5), pytest.approx((top + bottom) / 2, abs=0.5))


def test_a_line_of_many_thousand_points_becomes_a_short_one_through_the_same_ends() -> None:
    def drawn(x: np.ndarray) -> np.ndarray:
        chart = Chart(Axis("x", 0, 1, []), Axis("y", 0, 1, []), "label")
        chart.line(np.stack([x, x**2], 1), "ours")
        return points(chart.svg())

    many, few = drawn(np.linspace(0, 1, 50_001)), drawn(np.array([0.0, 0.5, 1]))
    assert len(many) < 2_000
    assert np.array_equal(many[[0, -1]], few[[0, -1]])
    assert np.abs(many - few[1]).max(1).min() <= 0.5


def test_the_last_two_series_are_the_model_and_the_legend_names_all() -> None:
    series = [Series(f"<{name}>", ranking()) for name in ("phash", "sift", "first", "ours")]
    assert kinds(series) == {
        "<ours>": "ours",
        "<first>": "first",
        "<phash>": "other other-0",
        "<sift>": "other other-1",
    }
    assert [item.findall("svg")[0].tail for item in legend(series)] == ["<ours>", "<first>", "<phash>", "<sift>"]


def test_numbers_are_short() -> None:
    assert [short(n) for n in (0, 999, 1000, 1250, 99_499, 3_100_000)] == ["0", "999", "1k", "1.2k", "99k", "3.1M"]
    assert [percent("0.0001"), percent(0.1), percent(0.12345, ".1f")] == ["0.01 %", "10 %", "12.3 %"]


def test_text_and_attributes_are_escaped_and_numbers_must_be_finite() -> None:
    made = tag("p", "a < ", tag("b", "<script>"), " & ", None, "c", class_="x", data_name='"><script>', x1=1.005)
    assert document(made).splitlines()[1] == (
        '<p class="x" data-name="&quot;&gt;<script&gt;" x1="1">a &lt; <b>&lt;script&gt;</b> &amp; c</p>'
    )
    assert fromstring(tostring(made)).get("data-name") == '"><script>'
    assert document(tag("html")) == "<!doctype html>\n<html></html>\n"
    with pytest.raises(ValueError, match="an attribute must be a finite number, got nan"):
        tag("line", x1=float("nan"))
