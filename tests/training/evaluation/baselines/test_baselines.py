"""Controls by name, and what holds for all of them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_runtime.errors import PictureError
from diptych_training.errors import DataError
from diptych_training.evaluation.baselines import CONTROLS, control


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        DataError, match="no control is called 'surf'; known are phash, histogram, pixels, sift, orb, mhd"
    ):
        control("surf")


@pytest.mark.parametrize(
    ("name", "library"), [("phash", "imagehash"), ("sift", "cv2"), ("orb", "cv2"), ("mhd", "scipy.spatial")]
)
def test_a_missing_library_is_named_with_the_line_that_installs_it(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(DataError, match=rf"{name} needs `pip install 'diptych\[evaluate\]'`: .*{library}"):
        control(name)


@pytest.mark.parametrize("name", ["histogram", "pixels"])
def test_these_need_no_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("imagehash", "cv2", "scipy", "scipy.spatial"):
        monkeypatch.setitem(sys.modules, library, None)
    assert control(name).name == name


@pytest.mark.parametrize("name", list(CONTROLS))
def test_every_control_says_its_name_and_only_the_dear_ones_verify(name: str) -> None:
    assert control(name).name == name
    assert control(name).verifies == (name in ("sift", "orb"))


@pytest.mark.parametrize("name", list(CONTROLS))
def test_files_and_their_bytes_are_described_alike_and_scored_as_float64(
    name: str, photo_bytes, tmp_path: Path
) -> None:
    data, path, measure = photo_bytes(3, (96, 64)), tmp_path / "photo.jpg", control(name)
    path.write_bytes(data)
    features = [measure.describe(source) for source in (path, data, photo_bytes(4, (96, 64)))]
    scores = measure.scores(features[0], features)
    assert (scores.dtype, scores.shape) == (np.float64, (3,))
    assert scores[0] == scores[1] > scores[2]


@pytest.mark.parametrize("name", list(CONTROLS))
@pytest.mark.parametrize("size", [(8, 8), (9, 1201), (61, 47)])
def test_blank_pictures_have_finite_scores_and_one_of_noise_beats_none_of_them(
    name: str, size: tuple[int, int]
) -> None:
    measure, rng = control(name), np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    features = [measure.describe(p) for p in (Image.new("RGB", size, "white"), Image.new("RGB", size, "black"), noise)]
    scores = np.stack([measure.scores(feature, features) for feature in features])
    assert np.isfinite(scores).all()
    assert (scores[2] <= scores[2, 2]).all()


@pytest.mark.parametrize("name", list(CONTROLS))
def test_a_damaged_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    with pytest.raises(PictureError, match=r"broken\.jpg"):
        control(name).describe(tmp_path / "broken.jpg")
