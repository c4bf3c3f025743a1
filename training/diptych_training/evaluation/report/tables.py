"""The figures of a report: the headline, every method beside the others, what the thresholds do."""

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element

from diptych_training.evaluation.figures import Figure, Row, gains, rows
from diptych_training.evaluation.report.charts import percent
from diptych_training.evaluation.report.markup import tag
from diptych_training.evaluation.series import Evidence

NAMES = {
    "recall@1": "recall@1",
    "recall@10": "recall@10",
    "recall@100": "recall@100",
    "map": "mean average precision",
    "micro_ap": "micro-AP",
    "recall_at_p90": "recall at 90 % precision",
    "auc": "area under ROC",
    "average_precision": "average precision",
    "accuracy": "accuracy",
}


def headline(evidence: Evidence) -> Element:
    """The figures of the re-ranked order, and its gain over the embedding alone."""
    ours, gain = rows(evidence.protocol, evidence.result)[-1], gains(evidence.protocol, evidence.result)[0]
    cards = [
        tag(
            "div",
            tag("dt", NAMES[key]),
            tag("dd", f"{figure.value:.3f}", class_="value"),
            tag("dd", f"{figure.low:.3f} to {figure.high:.3f}"),
            tag("dd", f"{signed(gain.figures[key].value)} by looking at both"),
        )
        for key, figure in ours.figures.items()
    ]
    return tag("section", tag("dl", *cards, class_="headline"), aria_label="Headline figures", style="margin-top: 0")


def methods(evidence: Evidence) -> Element:
    """A row a method, and the gains over each of them."""
    found = rows(evidence.protocol, evidence.result)
    keys = list(found[-1].figures)
    heads = tag("tr", tag("th", ""), *(tag("th", NAMES[key]) for key in keys))
    listed = [
        tag("tr", tag("td", row.name), *_cells(row), class_="ours" if row is found[-1] else None) for row in found
    ]
    about = "The re-ranked order minus each; coloured where the interval leaves out zero"
    between = tag("tr", tag("th", about, colspan=len(keys) + 1))
    differences = [
        tag("tr", tag("td", row.name), *_cells(row, gain=True)) for row in gains(evidence.protocol, evidence.result)
    ]
    return tag(
        "section",
        tag("h2", "Beside other methods"),
        tag("p", "All methods answered the same queries. In brackets 95 % intervals.", class_="about"),
        tag(
            "div",
            tag("table", tag("thead", heads), tag("tbody", *listed), tag("tbody", between, *differences)),
            class_="wide",
        ),
    )


def _cells(row: Row, *, gain: bool = False) -> list[Element]:
    write = signed if gain else "{:.3f}".format
    return [
        tag(
            "td",
            write(figure.value),
            tag("small", f"({write(figure.low)} to {write(figure.high)})"),
            class_=_direction(figure) if gain else None,
        )
        for figure in row.figures.values()
    ]


def _direction(figure: Figure) -> str | None:
    return "up" if figure.low > 0 else "down" if figure.high < 0 else None


def signed(value: float) -> str:
    """A difference with its sign, and a true minus."""
    return f"{value:+.3f}".replace("-", "\u2212")


def thresholds(measured: Mapping[str, Any]) -> Element:
    """A row a threshold of the model: what it aims at, and what it let pass here."""
    if not measured:
        return tag("p", "The model brings no thresholds.", class_="about")
    names = ("false-positive rate aimed at", "threshold", "passed here", "matches found here")
    body = [
        tag(
            "tr",
            tag("td", percent(rate)),
            tag("td", f"{at['threshold']:.5f}"),
            tag("td", percent(at["false_positive_rate"], ".2f")),
            tag("td", percent(at["recall"], ".1f")),
        )
        for rate, at in measured.items()
    ]
    about = "Thresholds of the relevance score, chosen on validation data, and what they do on these pairs."
    head = tag("thead", tag("tr", *(tag("th", name) for name in names)))
    table = tag("div", tag("table", head, tag("tbody", *body)), class_="wide")
    return tag("div", tag("p", about, class_="about"), table, class_="thresholds")
