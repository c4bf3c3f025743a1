import numpy as np
import pytest
from PIL import Image

from diptych_runtime.crops import AGAIN, crop_boxes, nearest_of_all, second_looks
from diptych_runtime.decoder import panel_pixels, query_pixels
from diptych_runtime.errors import PictureError


@pytest.mark.parametrize("share", [0.1, 0.6, 0.7, 0.99])
def test_crops_have_their_share_and_stay_inside(share):
    assert len(crop_boxes(share)) == 5
    for left, top, right, bottom in crop_boxes(share):
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
        assert right - left == pytest.approx(share)
        assert bottom - top == pytest.approx(share)
    assert crop_boxes(0) == []


def test_the_first_view_is_the_whole_and_the_others_are_its_parts(tmp_path):
    rng = np.random.default_rng(0)
    quarters = rng.integers(0, 255, (2, 2, 3), np.uint8)
    picture = Image.fromarray(np.kron(quarters, np.ones((300, 200, 1), np.uint8)))
    for source in (picture, np.array(picture)):
        views = query_pixels(source, 32, 0.5)
        assert views.shape == (6, 32, 32, 3)
        assert np.array_equal(views[0], panel_pixels(source, 32))
        for view, colour in zip(views[1:5], quarters.reshape(4, 3), strict=True):
            assert np.abs(view.astype(int) - colour).max() <= 1
        assert {tuple(colour) for colour in views[5][::31, ::31].reshape(-1, 3)} == {
            tuple(c) for c in quarters.reshape(4, 3)
        }
    picture.save(tmp_path / "large.jpg", quality=95)
    views = query_pixels(tmp_path / "large.jpg", 32, 0.5)
    assert np.array_equal(views[0], panel_pixels(tmp_path / "large.jpg", 32))
    assert np.abs(views[1].astype(int) - quarters[0, 0]).max() <= 6


def test_without_crops_there_is_the_whole_alone_and_a_tiny_picture_has_crops_too():
    tiny = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
    assert query_pixels(tiny, 32, 0).shape == (1, 32, 32, 3)
    assert query_pixels(tiny, 32, 0.6).shape == (6, 32, 32, 3)
    with pytest.raises(PictureError, match=r"9 ?x ?7"):
        query_pixels(tiny[:7], 32, 0.6)


def test_the_nearest_of_all_are_those_of_the_highest_cosine_to_any_view():
    rng = np.random.default_rng(1)
    cosines = rng.normal(size=(6, 50)).astype(np.float32)
    lists = [(order := np.argsort(-row)[:10], row[order]) for row in cosines]
    keys, best, views = nearest_of_all(lists, 10)
    wanted = np.argsort(-cosines.max(0))[:10]
    assert keys.tolist() == wanted.tolist()
    assert best.tolist() == cosines.max(0)[wanted].tolist()
    assert views.tolist() == cosines.argmax(0)[wanted].tolist()


def test_the_best_that_a_crop_found_are_looked_at_again():
    logits = np.arange(50, dtype=np.float32)
    views = np.arange(50) % 3
    again = second_looks(logits, views)
    assert sorted(again) == [i for i in range(50 - AGAIN, 50) if i % 3]
    assert len(second_looks(logits, np.zeros(50, int))) == 0
