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


def test_crops_of_a_large_jpeg_are_as_sharp_as_its_panel(tmp_path):
    stripes = np.zeros((1600, 1600, 3), np.uint8)
    stripes[:, (np.arange(1600) // 10) % 2 == 0] = 255
    Image.fromarray(stripes).save(tmp_path / "stripes.jpg", quality=95)
    crop = query_pixels(tmp_path / "stripes.jpg", 192, 0.5)[1]
    whole = query_pixels(tmp_path / "stripes.jpg", 192, 0)[0]
    assert crop.std() > 1.5 * whole.std()


def test_without_crops_there_is_the_whole_alone_and_a_tiny_picture_has_crops_too():
    tiny = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
    assert query_pixels(tiny, 32, 0).shape == (1, 32, 32, 3)
    assert query_pixels(tiny, 32, 0.6).shape == (6, 32, 32, 3)
    with pytest.raises(PictureError, match=r"9 ?x ?7"):
        query_pixels(tiny[:7], 32, 0.6)


def test_each_key_is_found_once_by_the_view_that_is_nearest_to_it():
    whole = (np.array([4, 2, 9]), np.array([0.9, 0.5, 0.4], np.float32))
    crop = (np.array([2, 4, 7]), np.array([0.8, 0.9, 0.6], np.float32))
    keys, cosines, views = nearest_of_all([whole, crop], 3)
    assert keys.tolist() == [4, 2, 7]
    assert cosines.tolist() == pytest.approx([0.9, 0.8, 0.6])
    assert views.tolist() == [0, 1, 1]
    alone = nearest_of_all([whole], 9)
    assert alone[0].tolist() == [4, 2, 9]
    assert not alone[2].any()
    names = nearest_of_all([(np.array(["b", "a"]), np.array([0.5, 0.5]))], 2)[0]
    assert names.tolist() == ["b", "a"]
    nothing = nearest_of_all([(np.empty(0, np.int64), np.empty(0, np.float32))] * 2, 3)
    assert [len(part) for part in nothing] == [0, 0, 0]


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
