"""A frame with two axes, and lines, bars and dots in it, as inline SVG; colours and fonts are the page's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from diptych_training.evaluation.report.markup import tag

WIDTH, HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 20, 12, 42


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, positive ones where `log`; `ticks` are values with their texts. Values are held inside."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def share(self, values: Any) -> np.ndarray:
        """The position along the axis, in [0, 1]."""
        values = np.clip(np.asarray(values, float), self.low, self.high)
        low, high = self.low, self.high
        if self.log:
            values, low, high = np.log(values), np.log(low), np.log(high)
        return (values - low) / (high - low)


class Chart:
    """Draws into one frame: `chart = Chart(x, y, "what it shows")`, then lines and bars, then `svg()`."""

    def __init__(self, x: Axis, y: Axis, label: str) -> None:
        self.x, self.y, self.label = x, y, label
        self._marks: list[Element] = []

    def line(self, points: np.ndarray, kind: str) -> None:
        """A line through (points, 2); `kind` is its class."""
        # To half a unit, which is less than the line is thick: of many thousand points few remain.
        places = np.round(2 * self._places(points)) / 2
        moved = (np.diff(places, axis=0) != 0).any(1)
        places = places[np.append(True, moved)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self._marks.append(tag("polyline", points=path, class_=f"line {kind}"))

    def bars(self, edges: np.ndarray, heights: np.ndarray, kind: str) -> None:
        """A filled outline of bars between edges (bins + 1,) from the lower end of y up to heights (bins,)."""
        x, y = np.repeat(edges, 2), np.concatenate([[self.y.low], np.repeat(heights, 2), [self.y.low]])
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in self._places(np.stack([x, y], 1)))
        self._marks.append(tag("polygon", points=path, class_=f"area {kind}"))

    def dot(self, x: float, y: float, text: str, kind: str, radius: float = 3.5) -> None:
        """A dot; `text` is its tooltip."""
        ((cx, cy),) = self._places(np.array([[x, y]]))
        self._marks.append(tag("circle", tag("title", text), cx=cx, cy=cy, r=radius, class_=f"dot {kind}"))

    def upright(self, x: float, text: str) -> None:
        """A thin line from bottom to top with its text beside it."""
        ((at, _),) = self._places(np.array([[x, self.y.low]]))
        beside = {"x": at - 4, "text_anchor": "end"} if at > WIDTH * 0.75 else {"x": at + 4}
        self._marks.append(tag("line", x1=at, x2=at, y1=_TOP, y2=HEIGHT - _BOTTOM, class_="upright"))
        self._marks.append(tag("text", text, y=_TOP + 10 + 12 * self._uprights(), class_="small", **beside))

    def note(self, x: float, y: float, text: str) -> None:
        """A small text centred above a place."""
        ((at, above),) = self._places(np.array([[x, y]]))
        self._marks.append(tag("text", text, x=at, y=above - 4, text_anchor="middle", class_="tiny"))

    def svg(self) -> Element:
        """The chart."""
        return tag(
            "svg", *self._frame(), *self._marks, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=self.label
        )

    def _uprights(self) -> int:
        return sum(mark.get("class") == "upright" for mark in self._marks) - 1

    def _frame(self) -> list[Element]:
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        marks = []
        for value, text in self.x.ticks:
            ((at, _),) = self._places(np.array([[value, self.y.low]]))
            marks.append(tag("line", x1=at, x2=at, y1=_TOP, y2=bottom, class_="grid"))
            marks.append(tag("text", text, x=at, y=bottom + 16, text_anchor="middle"))
        for value, text in self.y.ticks:
            ((_, at),) = self._places(np.array([[self.x.low, value]]))
            marks.append(tag("line", x1=_LEFT, x2=right, y1=at, y2=at, class_="grid"))
            marks.append(tag("text", text, x=_LEFT - 6, y=at + 4, text_anchor="end"))
        middle = (_TOP + bottom) / 2
        marks.append(tag("text", self.x.title, x=(_LEFT + right) / 2, y=HEIGHT - 6, text_anchor="middle"))
        turned = f"rotate(-90 11 {middle:.0f})"
        marks.append(tag("text", self.y.title, x=11, y=middle, transform=turned, text_anchor="middle"))
        return marks

    def _places(self, points: np.ndarray) -> np.ndarray:
        """Values (points, 2) -> places in the frame (points, 2)."""
        x = _LEFT + self.x.share(points[:, 0]) * (WIDTH - _LEFT - _RIGHT)
        y = HEIGHT - _BOTTOM - self.y.share(points[:, 1]) * (HEIGHT - _TOP - _BOTTOM)
        return np.stack([x, y], 1)
