"""The Modified Hausdorff Distance as a control."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_training.data.archives import data_folder
from diptych_training.evaluation.baselines import ModifiedHausdorff


def dots(*places: tuple[int, int]) -> Image.Image:
    """Single black pixels on white paper, 105 x 105, at (row, column)."""
    pixels = np.full((105, 105), 255, np.uint8)
    for row, column in places:
        pixels[row, column] = 0
    return Image.fromarray(pixels)


def test_the_distance_is_the_one_computed_by_hand() -> None:
    mhd = ModifiedHausdorff()
    # From their means: a is (-2, 0), (2, 0); b is (0, -3), (0, 0), (0, 3).
    a, b = mhd.describe(dots((10, 40), (14, 40))), mhd.describe(dots((70, 20), (70, 23), (70, 26)))
    # The nearest to each of a is (0, 0), at 2. Nearest to those of b: sqrt(13), 2, sqrt(13).
    assert mhd.scores(a, [b]) == pytest.approx([-(2 + 2 * 13**0.5) / 3])
    assert mhd.scores(b, [a]) == pytest.approx([-(2 + 2 * 13**0.5) / 3])


def test_a_drawing_has_no_distance_to_itself_wherever_it_stands() -> None:
    mhd = ModifiedHausdorff()
    a, moved = mhd.describe(dots((3, 4), (9, 31))), mhd.describe(dots((73, 24), (79, 51)))
    assert mhd.scores(a, [a, moved]).tolist() == [0, 0]


def test_every_pair_agrees_with_distances_taken_one_by_one() -> None:
    mhd, rng = ModifiedHausdorff(), np.random.default_rng(0)
    sets = [{(int(r), int(c)) for r, c in rng.integers(0, 105, (size, 2))} for size in (7, 11, 2)]
    centred = [np.array(sorted(s), float) - np.mean(sorted(s), axis=0) for s in sets]
    features = [mhd.describe(dots(*s)) for s in sets]
    for a, feature in zip(centred, features, strict=True):
        means = []
        for b in centred:
            one, other = ([min(np.hypot(*(p - q)) for q in to) for p in start] for start, to in ((a, b), (b, a)))
            means.append(-max(np.mean(one), np.mean(other)))
        assert mhd.scores(feature, features) == pytest.approx(means)


def test_empty_paper_is_farther_from_everything_than_any_two_drawings_are() -> None:
    mhd = ModifiedHausdorff()
    features = [mhd.describe(p) for p in (dots(), dots((0, 0), (104, 104)), dots((0, 104), (104, 0)))]
    empty = mhd.scores(features[0], features)
    assert np.isfinite(empty).all()
    assert empty.max() < mhd.scores(features[1], features[1:]).min()


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif("DIPTYCH_DATA" not in os.environ, reason="needs the archives that DIPTYCH_DATA names")
def test_its_error_on_the_runs_made_for_development_is_the_one_that_was_measured() -> None:
    mhd, wrong, trials = ModifiedHausdorff(), 0, 0
    with zipfile.ZipFile(data_folder() / "omniglot_dev_runs.zip") as archive:
        described = {name: mhd.describe(archive.read(name)) for name in archive.namelist() if name.endswith(".png")}
        for labels in (name for name in archive.namelist() if name.endswith("class_labels.txt")):
            answers = [line.split() for line in archive.read(labels).decode().splitlines() if line.strip()]
            known = sorted({reference for _, reference in answers})
            prefix = "" if known[0] in described else f"{Path(labels).parts[0]}/"
            for query, reference in answers:
                scores = mhd.scores(described[prefix + query], [described[prefix + name] for name in known])
                wrong += known[int(scores.argmax())] != reference
                trials += 1
    assert (wrong, trials) == (142, 400)
