import io
import itertools
from contextlib import redirect_stdout

import numpy as np
import pytest

from diptych.bench.command import read_peak_bytes
from diptych.cli.main import main
from diptych_studies.benchmarks import collection
from diptych_studies.benchmarks.collection import SIDES, draw_cuts, format_figures, measure_collection


def here(*words: object) -> tuple[str, int]:
    """A command in this process, for to start five of their own takes longer than what they do."""
    with redirect_stdout(io.StringIO()) as said:
        assert main(list(map(str, words))) == 0
    return said.getvalue(), read_peak_bytes()


@pytest.fixture(scope="module")
def measured(artifact, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "run_with_peak", here)
        patch.setattr(collection, "_call_in_process", lambda part, *words: getattr(collection, part)(*map(str, words)))
        return measure_collection(tmp_path_factory.mktemp("bench"), 120, str(artifact))


def test_pictures_are_small_all_different_and_the_same_ones_again():
    drawn = [np.asarray(picture) for picture in draw_cuts(60, 0)]
    assert len({picture.tobytes() for picture in drawn}) == len(drawn) == 60
    assert np.median([max(picture.shape) for picture in drawn]) <= SIDES[1]
    again = itertools.islice(draw_cuts(60, 0), 5)
    assert all(np.array_equal(one, np.asarray(other)) for one, other in zip(drawn, again, strict=False))


def test_every_picture_is_added_and_every_part_is_measured(measured):
    assert measured["add"]["pictures"] == measured["count"] == 120
    assert all(part["seconds"] > 0 for part in (measured["add"], *measured["open"].values()))
    assert set(measured["open"]) == {"valid", "damaged", "missing"}
    assert all(0 < half <= most for half, most in measured["search"]["milliseconds"].values())
    assert measured["sizes"]["candidates.faiss"] > 120 * 4 * 2
    peaks = [measured["add"], measured["search"], *measured["open"].values()]
    assert all(2**25 < each["peak_bytes"] < 2**33 for each in peaks)
    shown = format_figures(measured)
    for name in ("120 pictures, model", "index exact", "p99", "cache damaged", "cache missing", "sqlite"):
        assert name in shown
