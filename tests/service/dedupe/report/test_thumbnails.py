import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from diptych.dedupe.report.thumbnails import SIDE, make_thumbnail, make_thumbnails
from diptych_runtime.decoder import PictureLimits, open_picture
from diptych_runtime.errors import PictureError

LIMITS = PictureLimits()


@pytest.fixture
def path(tmp_path, photo):
    photo(3, (1501, 997)).save(tmp_path / "large.jpg", quality=90)
    return str(tmp_path / "large.jpg")


def test_a_thumbnail_is_a_small_webp_that_looks_like_the_picture(path):
    made = Image.open(BytesIO(make_thumbnail(path, LIMITS)))
    assert (made.format, max(made.size)) == ("WEBP", SIDE)
    whole = open_picture(path).resize(made.size)
    difference = np.abs(np.asarray(made.convert("RGB"), float) - np.asarray(whole, float)).mean()
    assert difference < 5
    assert len(make_thumbnail(path, LIMITS)) < 10_000


def test_a_small_picture_is_not_made_larger(tmp_path, photo):
    photo(1, (60, 40)).save(tmp_path / "small.png")
    assert Image.open(BytesIO(make_thumbnail(str(tmp_path / "small.png"), LIMITS))).size == (60, 40)


def test_each_comes_in_its_place_and_what_cannot_be_read_is_empty(path, tmp_path, monkeypatch):
    monkeypatch.setattr("diptych.dedupe.report.thumbnails._BATCH", 2)
    found = list(make_thumbnails([path, str(tmp_path / "none.jpg"), path], LIMITS, 2))
    assert found[1] == ""
    assert found[0] == found[2] == base64.b64encode(make_thumbnail(path, LIMITS)).decode()
    with pytest.raises(PictureError, match="does not exist"):
        make_thumbnail(str(tmp_path / "none.jpg"), LIMITS)
