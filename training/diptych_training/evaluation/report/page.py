"""The page of a report, section by section, for someone who must decide whether to trust the model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from diptych_training.evaluation.figures import counts
from diptych_training.evaluation.report.charts import (
    false_positives_chart,
    legend,
    precision_recall_chart,
    reliability_chart,
    scores_chart,
)
from diptych_training.evaluation.report.markup import tag
from diptych_training.evaluation.report.tables import headline, methods, thresholds
from diptych_training.evaluation.series import Evidence

_MARK = ("M2 3.5 13 2v20L2 20.5z", "M26 3.5 15 2v20l11-1.5z")


def page(evidence: Evidence, missed: Sequence[Element], mistaken: Sequence[Element]) -> Element:
    """The whole page; `missed` and `mistaken` are the figures of the hardest pairs."""
    style = Path(__file__).with_name("style.css").read_text("utf-8")
    title = f"{evidence.title}, model {evidence.model}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} - Diptych"),
        tag("style", style),
    )
    calibration = evidence.result["calibration"]
    body = tag(
        "body",
        _header(evidence),
        tag(
            "main",
            headline(evidence),
            methods(evidence),
            _curves(evidence, calibration),
            _trust(evidence, calibration),
            _gallery("Missed matches", "Pairs that match, lowest scores first.", missed, "There was no match to miss."),
            _gallery(
                "Mistaken others",
                "Pairs that do not match, highest scores first.",
                mistaken,
                "There was no pair to mistake.",
            ),
        ),
        tag(
            "footer",
            f"Model {evidence.model}, revision {evidence.revision}, protocol {evidence.protocol}. "
            f"Intervals hold 95 % of the values that {evidence.result['resampled']} drawn anew give.",
        ),
    )
    return tag("html", head, body, lang="en")


def _header(evidence: Evidence) -> Element:
    mark = tag("svg", *(tag("path", d=d) for d in _MARK), class_="mark", viewBox="0 0 28 24", aria_hidden="true")
    facts = f"Model {evidence.model}, revision {evidence.revision}. {', '.join(counts(evidence.result))}."
    return tag(
        "header", tag("p", mark, "Diptych", class_="brand"), tag("h1", evidence.title), tag("p", facts, class_="facts")
    )


def _curves(evidence: Evidence, calibration: Mapping[str, Any]) -> Element:
    charts = (
        (
            precision_recall_chart(evidence.series),
            "Precision and recall over all scored pairs in one list: one threshold serves every query.",
        ),
        (
            false_positives_chart(evidence.series, calibration.get("thresholds", {})),
            "Matches found by the false positives let through, as a share of the other pairs a method scored. "
            "Dots: the model's thresholds, at the left edge where no other passed.",
        ),
    )
    drawn = [_chart(chart, text) for chart, text in charts if chart is not None]
    if not drawn:
        return tag(
            "section",
            tag("h2", "Curves"),
            tag("p", "No pair that matches was to be found: there is no curve.", class_="about"),
        )
    return tag(
        "section",
        tag("h2", "Curves"),
        legend(evidence.series),
        tag("div", *drawn, class_="charts", style="margin-top: 14px"),
    )


def _trust(evidence: Evidence, calibration: Mapping[str, Any]) -> Element:
    heading = tag("h2", "What the scores are worth")
    if not calibration:
        return tag("section", heading, tag("p", "Matches and others are both needed to tell.", class_="about"))
    about = (
        f"Expected calibration error {calibration['ece']:.3f} over {calibration['pairs']:,} scored pairs, of which "
        f"{calibration['matches']:,} match; matches and others weigh the same."
    )
    spread = scores_chart(evidence.probabilities, evidence.labels, calibration["thresholds"])
    matches, others = (tag("span", class_=f"swatch {kind}") for kind in ("matches", "others"))
    key = tag("figcaption", matches, "matches", others, "others. Dashed: the thresholds, by the rate they aim at.")
    charts = tag(
        "div",
        _chart(
            reliability_chart(calibration["bins"]),
            "On the diagonal a stated probability is the share that matches. Below: pairs in each bin.",
        ),
        tag("figure", spread, key),
        class_="charts",
    )
    return tag("section", heading, tag("p", about, class_="about"), charts, thresholds(calibration["thresholds"]))


def _gallery(title: str, about: str, pairs: Sequence[Element], none: str) -> Element:
    if not pairs:
        return tag("section", tag("h2", title), tag("p", none, class_="about"))
    return tag("section", tag("h2", title), tag("p", about, class_="about"), tag("div", *pairs, class_="pairs"))


def _chart(chart: Element, text: str) -> Element:
    return tag("figure", chart, tag("figcaption", text))
