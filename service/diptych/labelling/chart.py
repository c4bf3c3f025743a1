"""The reliability plot of a calibration of one's own, as an SVG of its own: no plotting library is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from diptych.console import format_count
from diptych.labelling.calibrate import FittedQuestion
from diptych_runtime.calibration.reliability import Reliability

_SIDE, _LEFT, _TOP, _GAP = 300, 64, 56, 72
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_STYLE = """
svg{font:13px system-ui,sans-serif;--ink:#1d1d1f;--dim:#6b6b70;--grid:#dcdce0;--own:#0060b0;background:#fff}
@media(prefers-color-scheme:dark){svg{--ink:#f0f0f2;--dim:#a0a0a8;--grid:#3a3a40;--own:#5cb0ff;background:#1b1b1e}}
text{fill:var(--ink)}.dim{fill:var(--dim)}.grid{stroke:var(--grid)}.even{stroke:var(--dim);stroke-dasharray:4 4}
.before{fill:none;stroke:var(--dim);stroke-width:1.5}.after{fill:var(--own);stroke:var(--own);stroke-width:1.5}
"""


def reliability_svg(questions: Mapping[str, FittedQuestion]) -> str:
    """Draw each question's share of *same* over the stated probability.

    Circles are as released, dots with intervals of 95 % recalibrated; on the diagonal a probability is true.
    """
    width = len(questions) * (_LEFT + _SIDE) + 24
    height = _TOP + _SIDE + _GAP
    panels = [_draw_panel(place * (_LEFT + _SIDE), name, fit) for place, (name, fit) in enumerate(questions.items())]
    label = "; ".join(_format_title(name, fit) for name, fit in questions.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label)}"><style>{_STYLE}</style>{"".join(panels)}</svg>\n'
    )


def _format_title(name: str, fit: FittedQuestion) -> str:
    before, after = fit.reliability_before.error, fit.reliability_after.error
    return f"{name}: calibration error {before:.3f} as released, {after:.3f} recalibrated"


def _draw_panel(left: int, name: str, fit: FittedQuestion) -> str:
    labels = format_count(len(fit.labels), "label")
    marks = [
        f'<text x="20" y="20" font-weight="600">{escape(name)}, {labels}</text>',
        f'<text x="20" y="40" class="dim">{escape(_format_title(name, fit).partition(": ")[2])}</text>',
    ]
    for tick in _TICKS:
        (x, y), (end, top) = _map_point(tick, 0.0), _map_point(1.0, tick)
        start = _map_point(0.0, tick)[0]
        marks += [
            f'<path class="grid" d="M{x:.1f} {y:.1f}V{_TOP}M{start:.1f} {top:.1f}H{end:.1f}"/>',
            f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle" class="dim">{tick:g}</text>',
            f'<text x="{start - 6:.1f}" y="{top + 4:.1f}" text-anchor="end" class="dim">{tick:g}</text>',
        ]
    (x, y), (end, top) = _map_point(0, 0), _map_point(1, 1)
    marks.append(f'<path class="even" d="M{x:.1f} {y:.1f}L{end:.1f} {top:.1f}"/>')
    marks += _draw_dots(fit.reliability_before, "before", intervals=False)
    marks += _draw_dots(fit.reliability_after, "after", intervals=True)
    legend = 'share of "same"; circles as released, dots recalibrated'
    for down, text in ((40, "stated probability"), (60, legend)):
        marks.append(f'<text x="{(x + end) / 2:.1f}" y="{y + down:.1f}" text-anchor="middle">{text}</text>')
    return f'<g transform="translate({left} 0)">{"".join(marks)}</g>'


def _draw_dots(counted: Reliability, kind: str, *, intervals: bool) -> list[str]:
    marks, most = [], max(1, int(counted.pairs.max()))
    columns = (column.tolist() for column in (counted.pairs, counted.confidence, counted.frequency))
    for pairs, confidence, frequency in zip(*columns, strict=True):
        if not pairs:
            continue
        x, y = _map_point(confidence, frequency)
        if intervals:
            low, high = wilson_interval(frequency, pairs)
            marks.append(
                f'<path class="{kind}" d="M{x:.1f} {_map_point(0, low)[1]:.1f}V{_map_point(0, high)[1]:.1f}"/>'
            )
        radius = 3 + 5 * math.sqrt(pairs / most)
        text = f"{pairs} pair{'s' * (pairs != 1)}: stated {confidence:.3f}, same {frequency:.3f}"
        marks.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"><title>{text}</title></circle>'
        )
    return marks


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's interval of 95 % of a share of a count."""
    z = 1.96
    middle, wide = share + z * z / (2 * count), z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    whole = 1 + z * z / count
    return max(0.0, (middle - wide) / whole), min(1.0, (middle + wide) / whole)


def _map_point(x: float, y: float) -> tuple[float, float]:
    return _LEFT + x * (_SIDE - 16), _TOP + (1 - y) * (_SIDE - 16)
