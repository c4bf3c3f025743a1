"""The report as a file: what it says is what was measured, and nothing of the data can act in it."""

import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring, tostring

import numpy as np
import pytest
from PIL import Image

from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.figures import list_gains, list_rows
from diptych_training.evaluation.galleries import evaluate_copies
from diptych_training.evaluation.report import (
    LIMIT,
    LINKS,
    SIDE,
    _draw_false_positives,
    _draw_precision,
    _draw_reliability,
    _draw_scores,
    count_scores,
    draw_chart,
    draw_pair,
    format_percent,
    limited_log_odds,
    shorten_count,
    tag,
    trace_precision,
    trace_recall,
    write_report,
)
from diptych_training.evaluation.stages import Entrants, Evidence, Judged, Series
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


def test_the_curves_are_those_of_the_definition_with_ties_as_one_place() -> None:
    one = Ranking(np.array([[3.0, 2, 2], [5, 4, 1]]), np.array([[1, 0, 1], [0, 1, 0]], bool), np.array([2, 2]))
    np.testing.assert_allclose(
        np.asarray(trace_precision(one)), [[0, 0], [0.25, 1 / 2], [0.5, 2 / 3], [0.75, 3 / 5], [0.75, 1 / 2]]
    )
    np.testing.assert_allclose(
        np.asarray(trace_recall(one)), [[1 / 3, 0], [1 / 3, 0.25], [1 / 3, 0.5], [2 / 3, 0.75], [1, 0.75]]
    )


def test_there_is_no_curve_without_matches_without_others_and_without_candidates() -> None:
    assert trace_precision(ranking(matches=0)) is None
    assert trace_recall(ranking(matches=0)) is None
    everything = Ranking(np.ones((2, 1)), np.ones((2, 1), bool), np.ones(2, bool))
    assert trace_precision(everything) is not None
    assert trace_recall(everything) is None
    assert trace_precision(Ranking(np.ones((2, 0)), np.ones((2, 0), bool), np.ones(2, bool))) is None


def test_histograms_share_out_each_kind_and_hold_probabilities_of_zero_and_one() -> None:
    probabilities, labels = np.array([0, 0.5, 1, 1, 0.2, 0.9, 1e-9]), np.array([0, 1, 1, 1, 0, 0, 0], bool)
    edges, matches, others = count_scores(probabilities, labels)
    assert matches.sum() == pytest.approx(1)
    assert others.sum() == pytest.approx(1)
    assert (matches[-1], others[0]) == (pytest.approx(2 / 3), pytest.approx(0.5))
    assert edges[-1] == -edges[0] == pytest.approx(np.log((1 - LIMIT) / LIMIT))
    assert limited_log_odds(np.array(0.75)) == pytest.approx(np.log(3))
    assert count_scores(probabilities, np.zeros(7, bool))[1].sum() == 0


def test_every_chart_is_drawn_as_an_image_with_its_label() -> None:
    series = [Series(name, ranking(17, 23, seed)) for seed, name in enumerate(("phash", "<first>", "re-ranked"))]
    labels = np.random.default_rng(4).random(300) < 0.3
    probabilities = np.where(labels, 1.0, np.random.default_rng(5).random(300))
    for draw, expected in (
        (lambda axes: _draw_precision(axes, series), ("recall", "precision", "phash", "&lt;first&gt;", "re-ranked")),
        (lambda axes: _draw_false_positives(axes, series, THRESHOLDS), ("false-positive rate", "recall")),
        (lambda axes: _draw_reliability(axes, BINS), ("stated probability", "share that matches", ">71<", ">5<")),
        (lambda axes: _draw_scores(axes, probabilities, labels, THRESHOLDS), ("relevance score", "1 %", "0.99")),
    ):
        chart = draw_chart("a chart", draw)
        assert (chart.tag, chart.get("alt")) == ("img", "a chart")
        drawn = b64decode(chart.get("src", "").removeprefix("data:image/svg+xml;base64,")).decode()
        assert fromstring(drawn).tag.endswith("svg")
        assert all(text in drawn for text in expected)
        assert drawn == b64decode(draw_chart("a chart", draw).get("src", "").split(",")[1]).decode()


def test_numbers_are_short() -> None:
    assert [shorten_count(n) for n in (0, 999, 1000, 1250, 99_499, 3_100_000)] == [
        "0",
        "999",
        "1k",
        "1.2k",
        "99k",
        "3.1M",
    ]
    assert [format_percent("0.0001"), format_percent(0.1), format_percent(0.12345, ".1f")] == [
        "0.01 %",
        "10 %",
        "12.3 %",
    ]


def test_text_and_attributes_are_escaped_and_numbers_must_be_finite() -> None:
    made = tag("p", "a < ", tag("b", "<script>"), " & ", None, "c", class_="x", data_name='"><script>', x1=1.005)
    assert tostring(made, "unicode", method="html") == (
        '<p class="x" data-name="&quot;&gt;<script&gt;" x1="1">a &lt; <b>&lt;script&gt;</b> &amp; c</p>'
    )
    assert fromstring(tostring(made)).get("data-name") == '"><script>'
    with pytest.raises(ValueError, match="an attribute must be a finite number, got nan"):
        tag("line", x1=float("nan"))


EVIL = '<script>alert("&\'")</script>.jpg'


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text by the element it stands in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    def of(self, tag: str, kind: str | None = None) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.elements if name == tag and kind in (None, attrs.get("class"))]


@pytest.fixture(scope="module")
def evidence(runtime: Runtime, photos: Path) -> Evidence:
    names = [f"{i:02d}.jpg" for i in range(14)]
    entrants = Entrants(runtime, {"other": runtime})
    return evaluate_copies(entrants, photos, photos, [(name, name) for name in names], candidates=5)


def written(evidence: Evidence, runtime: Runtime, folder: Path) -> tuple[str, Page]:
    path = folder / "deeper" / "report.html"
    write_report(evidence, runtime, path)
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    text = path.read_text("utf-8")
    return text, Page(text)


def without_attention(runtime: Runtime) -> Any:
    class Silent:
        explains = False

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"a model that cannot explain is not asked for {name}")

    return Silent()


def test_the_figures_shown_are_those_of_the_evidence(evidence: Evidence, runtime: Runtime, tmp_path: Path) -> None:
    _, page = written(evidence, runtime, tmp_path)
    listed = list_rows("copies", evidence.result)
    expected = [cell for row in listed for cell in (row.name, *(f"{f.value:.3f}" for f in row.figures.values()))]
    cells = page.texts["td"]
    assert cells[: len(expected)] == expected
    differences = [
        f"{f.value:+.3f}".replace("-", "−")
        for row in list_gains("copies", evidence.result)
        for f in row.figures.values()
    ]
    assert [cell for cell in cells[len(expected) :] if cell[0] in "+−"] == differences
    assert [f"({f.low:.3f} to {f.high:.3f})" for row in listed for f in row.figures.values()] == page.texts["small"][
        : 3 * len(listed)
    ]
    thresholds = evidence.result["calibration"]["thresholds"]
    assert [f"{at['threshold']:.5f}" for at in thresholds.values()] == [
        c for c in cells if re.fullmatch(r"0\.\d{5}", c)
    ]
    assert f"Expected calibration error {evidence.result['calibration']['ece']:.3f}" in "".join(page.texts["p"])


def test_the_page_fetches_nothing_and_runs_nothing(evidence: Evidence, runtime: Runtime, tmp_path: Path) -> None:
    text, page = written(evidence, runtime, tmp_path)
    assert not re.search(r"https?:|url\(|@import", text)
    assert all(
        str(attrs[key]).startswith("data:") for _, attrs in page.elements for key in ("src", "href") if key in attrs
    )
    assert {name for name, _ in page.elements} & {"script", "link", "iframe", "object", "a"} == set()
    assert not [key for _, attrs in page.elements for key in attrs if key.startswith("on")]
    sources = [attrs["href"] for attrs in page.of("image")]
    assert len(sources) == 2 * (len(evidence.missed) + len(evidence.mistaken))
    for source in sources:
        assert source is not None
        picture = Image.open(BytesIO(b64decode(source.removeprefix("data:image/jpeg;base64,"))))
        assert (picture.format, max(picture.size) <= SIDE) == ("JPEG", True)


def test_names_that_are_markup_stay_text(evidence: Evidence, runtime: Runtime, photos: Path, tmp_path: Path) -> None:
    pair = Judged(photos / "00.jpg", (photos / "01.jpg").read_bytes(), EVIL, "\udcff.jpg", True, 0.25, -1.5)
    broken = replace(pair, picture_a=b"GIF89a")
    evil = replace(
        evidence, title=EVIL, model=EVIL, missed=(pair, broken), result=evidence.result | {"resampled": EVIL}
    )
    text, page = written(evil, runtime, tmp_path)
    assert "<script>" not in text
    assert not page.of("script")
    assert EVIL in page.texts["h1"]
    assert page.texts["span"].count(EVIL) == 2
    assert any(str(attrs.get("aria-label")).startswith(EVIL) for attrs in page.of("svg"))


def test_a_picture_that_cannot_be_decoded_becomes_a_note(
    evidence: Evidence, runtime: Runtime, photos: Path, tmp_path: Path
) -> None:
    pair = Judged(photos / "00.jpg", photos / "gone.jpg", "00.jpg", "gone.jpg", True, 0.25, -1.5)
    damaged = replace(pair, picture_b=b"\xff\xd8\xff and no more", caption_b="damaged.jpg")
    _, page = written(replace(evidence, missed=(pair, damaged), mistaken=()), runtime, tmp_path)
    notes = [text for text in page.texts["p"] if text.startswith("Not shown: ")]
    assert notes[0] == "Not shown: gone.jpg does not exist"
    assert notes[1].startswith("Not shown: damaged.jpg is damaged: its JPEG header cannot be read")
    assert not page.of("image")
    assert str(photos) not in "".join(page.texts["p"])


def test_a_report_without_matches_has_no_curves_and_says_so(
    evidence: Evidence, runtime: Runtime, tmp_path: Path
) -> None:
    series = tuple(
        replace(one, ranking=Ranking(one.ranking.scores, one.ranking.relevant & False, one.ranking.positives & False))
        for one in evidence.series
    )
    nothing = replace(
        evidence,
        series=series,
        labels=np.zeros_like(evidence.labels),
        missed=(),
        result=evidence.result | {"calibration": {}},
    )
    _, page = written(nothing, runtime, tmp_path)
    said = " ".join(page.texts["p"])
    for sentence in ("there is no curve", "Matches and others are both needed", "There was no match to miss"):
        assert sentence in said
    assert not page.of("img")


def test_a_model_that_cannot_explain_gets_pictures_without_lines(
    evidence: Evidence, runtime: Runtime, tmp_path: Path
) -> None:
    _, shown = written(evidence, runtime, tmp_path / "with")
    _, silent = written(evidence, without_attention(runtime), tmp_path / "without")
    pairs = len(evidence.missed) + len(evidence.mistaken)
    assert len(shown.of("line", "link")) == pairs * LINKS
    assert not silent.of("line", "link")
    assert len(silent.of("image")) == len(shown.of("image")) == 2 * pairs
    assert sum("of the attention crosses the seam" in text for text in shown.texts["p"]) == pairs


def test_links_start_and_end_at_the_places_of_their_patches(runtime: Runtime, photo_bytes) -> None:
    wide, tall = photo_bytes(1, (96, 48)), photo_bytes(2, (48, 96))
    figure = draw_pair(Judged(wide, tall, "wide", "tall", True, 0.5, 0.0), runtime)
    frames = [[float(image.get(key, "")) for key in ("x", "y", "width", "height")] for image in figure.iter("image")]
    lines = [line for line in figure.iter("line") if line.get("class") == "link"]
    assert len(lines) == LINKS
    for end, (x, y, width, height) in zip(("1", "2"), frames, strict=True):
        columns = [(float(line.get("x" + end, "")) - x) / width * 4 - 0.5 for line in lines]
        places = [(float(line.get("y" + end, "")) - y) / height * 4 - 0.5 for line in lines]
        np.testing.assert_allclose([columns, places], np.round([columns, places]), atol=1e-3)
        assert {round(value) for value in columns + places} == {0, 1, 2, 3}
    assert frames[0][2:] == [SIDE, SIDE / 2]
    assert frames[1][2:] == [SIDE / 2, SIDE]
    widths = [float(line.get("stroke-width", "")) for line in lines]
    assert widths == sorted(widths)


def test_a_report_is_replaced_as_a_whole_and_one_that_cannot_be_written_is_refused(
    evidence: Evidence, runtime: Runtime, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    few = replace(evidence, missed=(), mistaken=())
    write_report(few, runtime, path)
    assert path.read_text("utf-8").startswith("<!doctype html>")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"the report .*folder cannot be written: "):
        write_report(few, runtime, tmp_path / "folder")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "report.html"]
