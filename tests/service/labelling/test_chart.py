"""The reliability plot."""

from xml.etree import ElementTree

import numpy as np
import pytest

from diptych.labelling.calibrate import BINS, FittedQuestion
from diptych.labelling.chart import reliability_svg, wilson_interval
from diptych_runtime.own_calibration import OwnQuestion

SVG = "{http://www.w3.org/2000/svg}"


def fit(count: int = 400) -> FittedQuestion:
    rng = np.random.default_rng(0)
    after = rng.random(count)
    labels = rng.random(count) < after
    return FittedQuestion(OwnQuestion(1.0, 0.0, {}), labels, after**2, after, (0.1, 0.0, 0.2), {})


def test_every_bin_with_pairs_has_its_dots_and_says_its_numbers():
    drawn = ElementTree.fromstring(reliability_svg({'a<b>&"c': fit(), "thing": fit(50)}))
    assert drawn.get("role") == "img"
    assert drawn.get("aria-label", "").startswith('a<b>&"c: calibration error 0.')
    assert "recalibrated; thing: " in drawn.get("aria-label", "")
    panels = drawn.findall(f"{SVG}g")
    assert len(panels) == 2
    for kind in ("before", "after"):
        dots = [dot for dot in panels[0].iter(f"{SVG}circle") if dot.get("class") == kind]
        assert len(dots) == BINS
        assert all("pairs: stated 0." in (dot.findtext(f"{SVG}title") or "") for dot in dots)
    width, height = map(float, drawn.get("viewBox", "").split()[2:])
    for panel in panels:
        for dot in panel.iter(f"{SVG}circle"):
            assert 0 < float(dot.get("cx", "")) < width
            assert 0 < float(dot.get("cy", "")) < height


@pytest.mark.parametrize(
    ("share", "count", "low", "high"), [(0.5, 100, 0.404, 0.596), (0, 10, 0, 0.278), (1, 10, 0.722, 1)]
)
def test_wilsons_interval_is_the_one_in_the_tables(share, count, low, high):
    assert wilson_interval(share, count) == pytest.approx((low, high), abs=0.001)
