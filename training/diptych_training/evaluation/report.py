"""The report of an evaluation: one HTML file that needs nothing else, for who must decide on a model."""

import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, tostring

import numpy as np
from PIL import Image

from diptych_runtime.atomic import replacing_file
from diptych_runtime.attention_links import strongest_links
from diptych_runtime.decoder import open_picture, panel_pixels
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.figures import Figure, Row, list_counts, list_gains, list_rows
from diptych_training.evaluation.stages import Evidence, Judged, Series
from diptych_training.metrics import Pool, Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Content = Element | str | None
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
_MARK = ("M2 3.5 13 2v20L2 20.5z", "M26 3.5 15 2v20l11-1.5z")
SIDE, GAP, LINKS = 220, 28, 12  # pixels of a pair's pictures and between them, and lines of attention
LIMIT = 1e-5  # probabilities are shown no closer than this to 0 and 1
_BINS = 44
_STRIP = 0.17  # below the reliability plot, for the counts
_ODDS = (0.0001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.9999)
# Colours that are read on light paper and on dark: text, the model, its first stage, and the others.
_SOFT, _OURS, _OTHERS = "#87817a", "#3d9585", "#c4784c"
_METHODS = ("#c4784c", "#6a8fc5", "#a877b4", "#9d9a4c", "#ce6a8b", "#77a6ab")


def write_report(evidence: Evidence, runtime: Runtime, path: Path) -> None:
    """Write the evidence as one HTML file, whole or not at all: figures, curves, calibration, hardest pairs.

    The file fetches nothing and runs nothing. `runtime` is the model that was measured; where its artifact can explain,
    the pairs carry the strongest attention across the seam. Raises `DataError` where the file cannot be written.
    """
    text = "<!doctype html>\n" + tostring(make_page(evidence, runtime), "unicode", method="html") + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(path) as unfinished:
            # File names need not be UTF-8; what is not stands as a number.
            unfinished.write_text(text, "utf-8", "xmlcharrefreplace")
    except OSError as error:
        raise DataError(f"the report {path} cannot be written: {error.strerror or error}") from None


def make_page(evidence: Evidence, runtime: Runtime) -> Element:
    """The whole page, section by section."""
    style = Path(__file__).with_name("report.css").read_text("utf-8")
    missed, mistaken = ([draw_pair(pair, runtime) for pair in pairs] for pairs in (evidence.missed, evidence.mistaken))
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
        _render_header(evidence),
        tag(
            "main",
            _render_headline(evidence),
            _render_methods(evidence),
            _render_curves(evidence, calibration),
            _render_trust(evidence, calibration),
            _render_gallery(
                "Missed matches", "Pairs that match, lowest scores first.", missed, "There was no match to miss."
            ),
            _render_gallery(
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


def _render_header(evidence: Evidence) -> Element:
    mark = tag("svg", *(tag("path", d=d) for d in _MARK), class_="mark", viewBox="0 0 28 24", aria_hidden="true")
    facts = f"Model {evidence.model}, revision {evidence.revision}. {', '.join(list_counts(evidence.result))}."
    return tag(
        "header", tag("p", mark, "Diptych", class_="brand"), tag("h1", evidence.title), tag("p", facts, class_="facts")
    )


def _render_curves(evidence: Evidence, calibration: Mapping[str, Any]) -> Element:
    if all(trace_precision(one.ranking) is None for one in evidence.series):
        about = tag("p", "No pair that matches was to be found: there is no curve.", class_="about")
        return tag("section", tag("h2", "Curves"), about)
    thresholds = calibration.get("thresholds", {})
    charts = (
        _render_chart(
            draw_chart("Precision by recall", lambda axes: _draw_precision(axes, evidence.series)),
            "Precision and recall over all scored pairs in one list: one threshold serves every query.",
        ),
        _render_chart(
            draw_chart(
                "Recall by false-positive rate", lambda axes: _draw_false_positives(axes, evidence.series, thresholds)
            ),
            "Matches found by the false positives let through, as a share of the other pairs a method scored. "
            "Dots: the model's thresholds, at the left edge where no other passed.",
        ),
    )
    return tag("section", tag("h2", "Curves"), tag("div", *charts, class_="charts", style="margin-top: 14px"))


def _render_trust(evidence: Evidence, calibration: Mapping[str, Any]) -> Element:
    heading = tag("h2", "What the scores are worth")
    if not calibration:
        return tag("section", heading, tag("p", "Matches and others are both needed to tell.", class_="about"))
    about = (
        f"Expected calibration error {calibration['ece']:.3f} over {calibration['pairs']:,} scored pairs, of which "
        f"{calibration['matches']:,} match; matches and others weigh the same."
    )
    thresholds = calibration["thresholds"]
    spread = draw_chart(
        "Scores of matches and of others",
        lambda axes: _draw_scores(axes, evidence.probabilities, evidence.labels, thresholds),
    )
    matches, others = (tag("span", class_=f"swatch {kind}") for kind in ("matches", "others"))
    key = tag("figcaption", matches, "matches", others, "others. Dashed: the thresholds, by the rate they aim at.")
    reliable = _render_chart(
        draw_chart(
            "Reliability of the stated probabilities", lambda axes: _draw_reliability(axes, calibration["bins"])
        ),
        "On the diagonal a stated probability is the share that matches. Below: pairs in each bin.",
    )
    charts = tag("div", reliable, tag("figure", spread, key), class_="charts")
    return tag("section", heading, tag("p", about, class_="about"), charts, _render_thresholds(thresholds))


def _render_chart(chart: Element, text: str) -> Element:
    return tag("figure", chart, tag("figcaption", text))


def _render_gallery(title: str, about: str, pairs: Sequence[Element], none: str) -> Element:
    if not pairs:
        return tag("section", tag("h2", title), tag("p", none, class_="about"))
    return tag("section", tag("h2", title), tag("p", about, class_="about"), tag("div", *pairs, class_="pairs"))


def _render_headline(evidence: Evidence) -> Element:
    """The figures of the re-ranked order, and its gain over the embedding alone."""
    ours, gain = list_rows(evidence.protocol, evidence.result)[-1], list_gains(evidence.protocol, evidence.result)[0]
    cards = [
        tag(
            "div",
            tag("dt", NAMES[key]),
            tag("dd", f"{figure.value:.3f}", class_="value"),
            tag("dd", f"{figure.low:.3f} to {figure.high:.3f}"),
            tag("dd", f"{_format_sign(gain.figures[key].value)} by looking at both"),
        )
        for key, figure in ours.figures.items()
    ]
    return tag("section", tag("dl", *cards, class_="headline"), aria_label="Headline figures", style="margin-top: 0")


def _render_methods(evidence: Evidence) -> Element:
    """A row a method, and the gains over each of them."""
    found = list_rows(evidence.protocol, evidence.result)
    keys = list(found[-1].figures)
    heads = tag("tr", tag("th", ""), *(tag("th", NAMES[key]) for key in keys))
    listed = [
        tag("tr", tag("td", row.name), *_format_cells(row), class_="ours" if row is found[-1] else None)
        for row in found
    ]
    about = "The re-ranked order minus each; coloured where the interval leaves out zero"
    between = tag("tr", tag("th", about, colspan=len(keys) + 1))
    differences = [
        tag("tr", tag("td", row.name), *_format_cells(row, gain=True))
        for row in list_gains(evidence.protocol, evidence.result)
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


def _format_cells(row: Row, *, gain: bool = False) -> list[Element]:
    write = _format_sign if gain else "{:.3f}".format
    return [
        tag(
            "td",
            write(figure.value),
            tag("small", f"({write(figure.low)} to {write(figure.high)})"),
            class_=_name_direction(figure) if gain else None,
        )
        for figure in row.figures.values()
    ]


def _name_direction(figure: Figure) -> str | None:
    return "up" if figure.low > 0 else "down" if figure.high < 0 else None


def _format_sign(value: float) -> str:
    """A difference with its sign, and a true minus."""
    return f"{value:+.3f}".replace("-", "\u2212")


def _render_thresholds(measured: Mapping[str, Any]) -> Element:
    """A row a threshold of the model: what it aims at, and what it let pass here."""
    if not measured:
        return tag("p", "The model brings no thresholds.", class_="about")
    names = ("false-positive rate aimed at", "threshold", "passed here", "matches found here")
    body = [
        tag(
            "tr",
            tag("td", format_percent(rate)),
            tag("td", f"{at['threshold']:.5f}"),
            tag("td", format_percent(at["false_positive_rate"], ".2f")),
            tag("td", format_percent(at["recall"], ".1f")),
        )
        for rate, at in measured.items()
    ]
    about = "Thresholds of the relevance score, chosen on validation data, and what they do on these pairs."
    head = tag("thead", tag("tr", *(tag("th", name) for name in names)))
    table = tag("div", tag("table", head, tag("tbody", *body)), class_="wide")
    return tag("div", tag("p", about, class_="about"), table, class_="thresholds")


def draw_chart(label: str, draw: Callable[["Axes"], None]) -> Element:
    """A chart as an image in the page; `draw` draws it."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "diptych", "font.size": 9}
    style.update(dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _SOFT))
    with rc_context(style):
        figure = Canvas(figsize=(5.5, 3.75), layout="constrained")
        axes = figure.subplots()
        axes.grid(color=_SOFT, alpha=0.25, linewidth=0.8)
        axes.spines[:].set_visible(False)
        draw(axes)
        file = BytesIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return tag("img", src="data:image/svg+xml;base64," + b64encode(file.getvalue()).decode(), alt=label)


def _draw_precision(axes: "Axes", series: Sequence[Series]) -> None:
    """One line a method."""
    _draw_lines(axes, series, [trace_precision(one.ranking) for one in series])
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    axes.legend(frameon=False, fontsize=8)


def _draw_false_positives(axes: "Axes", series: Sequence[Series], thresholds: Mapping[str, Any]) -> None:
    """One line a method over a logarithmic false-positive rate, and the model's thresholds as dots."""
    curves = [trace_recall(one.ranking) for one in series]
    rates = [curve[curve[:, 0] > 0, 0].min() for curve in curves if curve is not None]
    low = 10.0 ** -max(int(np.ceil(-np.log10(min(rates, default=0.1)) - 1e-9)), 1)
    _draw_lines(axes, series, [None if curve is None else np.maximum(curve, [low, 0]) for curve in curves])
    for at in thresholds.values():
        axes.plot(max(at["false_positive_rate"], low), at["recall"], "o", color=_OURS, clip_on=False)
    axes.set(xscale="log", xlim=(low, 1), ylim=(0, 1.02), ylabel="recall")
    axes.set_xlabel("false-positive rate among scored pairs")


def _draw_lines(axes: "Axes", series: Sequence[Series], curves: Sequence[np.ndarray | None]) -> None:
    """The curves of all methods: the last is the model's re-ranked order, the one before it its first stage."""
    for place, (one, curve) in enumerate(zip(series, curves, strict=True)):
        last = len(series) - 1 - place
        style: dict[str, Any] = {"color": _OURS, "linewidth": 2.4} if last == 0 else {"color": _SOFT, "linestyle": "--"}
        if last > 1:
            style = {"color": _METHODS[place % len(_METHODS)]}
        if curve is not None:
            axes.plot(*curve.T, label=one.name, **style)


def _draw_reliability(axes: "Axes", bins: Sequence[Mapping[str, Any]]) -> None:
    """The share of matches among pairs of a stated probability, by bins; below them how many pairs a bin has."""
    most = max(np.log1p(one["pairs"]) for one in bins)
    for one in bins:
        height, width = 0.6 * _STRIP * np.log1p(one["pairs"]) / most, one["to"] - one["from"]
        axes.bar(one["from"], height, width, -_STRIP, align="edge", color=_SOFT, alpha=0.3)
        middle = one["from"] + width / 2
        axes.text(middle, height - _STRIP + 0.01, shorten_count(one["pairs"]), ha="center", fontsize=6)
    axes.plot([0, 1], [0, 1], ":", color=_SOFT)
    points = np.array([[one["confidence"], one["frequency"]] for one in bins])
    axes.plot(*points.T, "o-", color=_OURS)
    axes.set(xlabel="stated probability", ylabel="share that matches", xlim=(0, 1), ylim=(-_STRIP, 1.02))


def _draw_scores(axes: "Axes", probabilities: np.ndarray, labels: np.ndarray, thresholds: Mapping[str, Any]) -> None:
    """The histograms of the scores of matches and of others, each kind's bars summing to 1, on an axis of log-odds."""
    edges, matches, others = count_scores(probabilities, labels)
    axes.stairs(others, edges, fill=True, color=_OTHERS, alpha=0.5)
    axes.stairs(matches, edges, fill=True, color=_OURS, alpha=0.6)
    top = axes.get_ylim()[1]
    shown = {rate: at["threshold"] for rate, at in thresholds.items() if LIMIT < at["threshold"] < 1 - LIMIT}
    for place, (rate, threshold) in enumerate(shown.items()):
        at = float(limited_log_odds(np.array(threshold)))
        axes.axvline(at, color=_SOFT, linewidth=1, linestyle="--")
        axes.text(at, top * (0.97 - 0.05 * place), f" {format_percent(rate)}", fontsize=7)
    axes.set_xticks([float(limited_log_odds(np.array(value))) for value in _ODDS], [f"{value:g}" for value in _ODDS])
    axes.set(xlabel="relevance score", ylabel="share of its kind", xlim=(edges[0], edges[-1]))


def format_percent(rate: str | float, digits: str = "g") -> str:
    """A rate in percent, by default without needless digits."""
    return f"{100 * float(rate):{digits}} %"


def shorten_count(count: int) -> str:
    """A count in at most four characters."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.2g}{unit}" if count < 10 * size else f"{count / size:.0f}{unit}"
    return str(count)


def count_down(ranking: Ranking) -> tuple[np.ndarray, np.ndarray] | None:
    """Matches and others (places,) down to each distinct score of all queries in one list, best first.

    None where nothing was scored.
    """
    scores, relevant = ranking.scores.ravel(), ranking.relevant.ravel()
    return Pool(scores, relevant).curve() if len(scores) else None


def trace_precision(ranking: Ranking) -> np.ndarray | None:
    """Recall and precision (places, 2), from the best score down; None without a match to find."""
    places, matches = count_down(ranking), int(ranking.positives.sum())
    if places is None or not matches:
        return None
    found, others = places
    return np.stack([found / matches, found / (found + others)], 1)


def trace_recall(ranking: Ranking) -> np.ndarray | None:
    """False-positive rate among the scored others and recall (places, 2), from the best score down.

    None without a match to find or without others. Places without a false positive are not left out: their rate is 0.
    """
    places, matches = count_down(ranking), int(ranking.positives.sum())
    if places is None or not matches or not places[1][-1]:
        return None
    found, others = places
    return np.stack([others / others[-1], found / matches], 1)


def limited_log_odds(probabilities: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), p held within `LIMIT` of 0 and 1."""
    p = np.clip(np.asarray(probabilities, np.float64), LIMIT, 1 - LIMIT)
    return np.log(p / (1 - p))


def count_scores(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges (bins + 1,) in log-odds, and the share of the matches and of the others in each bin, (bins,) twice.

    The shares of a kind sum to 1, or are 0 where there is none of it.
    """
    reach = limited_log_odds(np.array(1.0))
    edges = np.linspace(-reach, reach, _BINS + 1)
    odds = limited_log_odds(probabilities)
    shares = [np.histogram(odds[kind], edges)[0] / max(int(kind.sum()), 1) for kind in (labels, ~labels)]
    return edges, shares[0], shares[1]


def draw_pair(pair: Judged, runtime: Runtime) -> Element:
    """A judged pair side by side, the strongest attention between them; a picture that cannot be decoded is a note."""
    try:
        shown = _side_by_side(pair, runtime)
    except PictureError as error:
        shown = [tag("p", f"Not shown: {error}", class_="alert")]
    captions = (tag("span", caption) for caption in (pair.caption_a, pair.caption_b))
    verdict = tag("b", f"{pair.relevance:.4f}"), " probability, raw score " + f"{pair.raw:.2f}".replace("-", "\u2212")
    return tag(
        "figure", *shown, tag("figcaption", tag("p", *captions, class_="names"), tag("p", *verdict)), class_="pair"
    )


def _side_by_side(pair: Judged, runtime: Runtime) -> list[Element]:
    sides = [(pair.picture_a, pair.caption_a), (pair.picture_b, pair.caption_b)]
    pictures = [open_picture(source, name=caption) for source, caption in sides]
    sizes = [_fit_size(picture) for picture in pictures]
    height = max(size[1] for size in sizes)
    corners = [(place * (SIDE + GAP) + (SIDE - w) / 2, (height - h) / 2) for place, (w, h) in enumerate(sizes)]
    content, note = [], None
    for picture, (x, y), (w, h) in zip(pictures, corners, sizes, strict=True):
        content.append(
            tag("image", href=_embed_picture(picture), x=x, y=y, width=w, height=h, preserveAspectRatio="none")
        )
    if runtime.explains:
        pixels = np.stack([panel_pixels(source, runtime.panel_size, name=caption) for source, caption in sides])
        tokens = runtime.encode(pixels).tokens
        (attention,) = runtime.attention(tokens[:1], tokens[1:])
        content += _draw_links(attention, corners, sizes)
        crossing, most = format_percent(attention.sum() / len(attention), ".0f"), format_percent(attention.max(), ".1f")
        text = f"{crossing} of the attention crosses the seam; the strongest line is {most} of a patch's"
        note = tag("p", text, class_="aside")
    label = f"{pair.caption_a} beside {pair.caption_b}"
    box = f"0 0 {2 * SIDE + GAP} {height:.0f}"
    return [
        part for part in (tag("svg", *content, viewBox=box, role="img", aria_label=label), note) if part is not None
    ]


def _draw_links(
    attention: np.ndarray,
    corners: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
) -> list[Element]:
    """The links as lines from patch to patch, the strongest on top; a patch is where its part of the picture is."""
    links, side = strongest_links(attention, LINKS), math.isqrt(len(attention))
    most = max(links[0].share, 1e-12)
    marks = []
    for row, column, value in reversed(links):
        ends = []
        for token, (x, y), (w, h) in zip((row, column), corners, sizes, strict=True):
            i, j = divmod(token, side)
            ends.append((x + (j + 0.5) / side * w, y + (i + 0.5) / side * h))
        (x1, y1), (x2, y2) = ends
        thick, place = 0.8 + 2.7 * value / most, {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        marks.append(tag("line", **place, stroke_width=thick + 1.6, class_="halo"))
        marks.append(tag("line", tag("title", f"{value:.4f}"), **place, stroke_width=thick, class_="link"))
        marks += [tag("circle", cx=x, cy=y, r=1.5 + thick / 2, class_="end") for x, y in ends]
    return marks


def _fit_size(picture: Image.Image) -> tuple[float, float]:
    """Width and height with the longer side as long as is shown."""
    scale = SIDE / max(picture.size)
    return max(picture.width * scale, 1), max(picture.height * scale, 1)


def _embed_picture(picture: Image.Image) -> str:
    small = picture.copy()
    small.thumbnail((SIDE, SIDE))
    buffer = BytesIO()
    small.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()


def tag(name: str, /, *content: Content, **attributes: str | float | None) -> Element:
    """One element: `tag("p", "a < b", class_="note")`.

    Text is escaped when it is written, None is left out. Attributes: an underscore at the end is dropped, others become
    hyphens; numbers are rounded to hundredths. Raises ValueError for a number that is not finite.
    """
    element = Element(
        name,
        {
            key.removesuffix("_").replace("_", "-"): _format_value(value)
            for key, value in attributes.items()
            if value is not None
        },
    )
    last = None
    for part in content:
        if isinstance(part, Element):
            element.append(part)
            last = part
        elif part is not None and last is None:
            element.text = (element.text or "") + part
        elif part is not None and last is not None:
            last.tail = (last.tail or "") + part
    return element


def _format_value(value: str | float) -> str:
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        raise ValueError(f"an attribute must be a finite number, got {value}")
    return f"{value:.2f}".rstrip("0").rstrip(".")
