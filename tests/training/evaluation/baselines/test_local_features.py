"""SIFT and ORB with geometric verification as controls."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from diptych_training.evaluation.baselines import control
from diptych_training.evaluation.local_features import Keypoints, orb, sift


def scene(seed: int) -> Image.Image:
    """Grey blobs of all sizes, 240 x 200: much to hold on to, nothing twice."""
    rng = np.random.default_rng(seed)
    layers = [
        np.asarray(
            Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).resize((240, 200), Image.Resampling.BICUBIC),
            float,
        )
        for shape in ((13, 17), (31, 29), (61, 59))
    ]
    return Image.fromarray(np.mean(layers, 0).astype(np.uint8)).filter(ImageFilter.GaussianBlur(1)).convert("RGB")


@pytest.mark.parametrize("name", ["sift", "orb"])
@pytest.mark.parametrize(
    "edit",
    [
        lambda picture: picture,
        lambda picture: picture.rotate(31, Image.Resampling.BICUBIC, expand=True),
        lambda picture: picture.resize((160, 133), Image.Resampling.BICUBIC),
        lambda picture: picture.crop((60, 40, 230, 190)),
    ],
    ids=["the same", "turned by 31 degrees", "two thirds the size", "a crop"],
)
def test_an_edited_picture_has_many_inliers_and_another_few(name: str, edit) -> None:
    features = control(name)
    copy, other, asked = (features.describe(picture) for picture in (scene(1), scene(2), edit(scene(1))))
    found, missed = features.scores(asked, [copy, other])
    assert found >= 25
    assert missed < 10


@pytest.mark.parametrize("name", ["sift", "orb"])
def test_a_picture_is_most_like_itself_and_a_score_does_not_depend_on_the_pairs_before_it(name: str) -> None:
    features = control(name)
    described = [features.describe(scene(seed)) for seed in range(3)]
    described.append(features.describe(scene(0).rotate(9)))
    scores = features.scores(described[0], described)
    assert scores.argmax() == 0
    assert features.scores(described[0], described[::-1]).tolist() == scores[::-1].tolist()
    assert [features.scores(described[0], [d])[0] for d in described] == scores.tolist()
    again = control(name)
    assert again.scores(again.describe(scene(0)), [again.describe(scene(0).rotate(9))]) == scores[3]


@pytest.mark.parametrize("name", ["sift", "orb"])
@pytest.mark.parametrize("size", [(8, 8), (300, 200), (9, 2000)])
def test_blank_pictures_have_no_keypoints_and_score_zero_with_everything(name: str, size: tuple[int, int]) -> None:
    features = control(name)
    blank, full = features.describe(Image.new("RGB", size, "white")), features.describe(scene(1))
    assert blank.places.shape == (0, 2)
    assert blank.descriptors.shape == (0, full.descriptors.shape[1])
    assert features.scores(blank, [blank, full]).tolist() == [0, 0]
    assert features.scores(full, [blank]).tolist() == [0]


def test_a_keypoint_is_matched_at_most_once_and_only_where_its_second_neighbour_is_clearly_farther() -> None:
    def keypoints(*levels: int) -> Keypoints:
        descriptors = np.zeros((len(levels), 128), np.uint8)
        descriptors[:, 0] = levels
        return Keypoints(np.zeros((len(levels), 2), np.float32), descriptors)

    # 10 and 12 are both nearest to 11, which takes the first of them; 100 is hardly nearer to 90 than to 111.
    asked, answered = sift().matches(keypoints(10, 12, 100, 201), keypoints(11, 90, 111, 200))
    assert asked.tolist() == [0, 3]
    assert answered.tolist() == [0, 3]


@pytest.mark.parametrize(("make", "norm", "kind"), [(sift, "NORM_L2", np.float32), (orb, "NORM_HAMMING", np.uint8)])
def test_the_matches_are_those_of_opencvs_own_matcher(make, norm: str, kind: type) -> None:
    import cv2

    features = make()
    a, b = (features.describe(picture) for picture in (scene(1).rotate(7), scene(1)))
    first, second = a.descriptors.astype(kind), b.descriptors.astype(kind)
    matcher = cv2.BFMatcher(getattr(cv2, norm))
    best = [near for near, far in matcher.knnMatch(first, second, k=2) if near.distance < 0.8 * far.distance]
    back = {(m.trainIdx, m.queryIdx) for m in matcher.match(second, first)}
    expected = [(m.queryIdx, m.trainIdx) for m in best if (m.queryIdx, m.trainIdx) in back]
    assert len(expected) > 25
    assert list(zip(*(places.tolist() for places in features.matches(a, b)), strict=True)) == expected


def test_small_pictures_are_enlarged_for_orb_alone_and_large_ones_shrunk_for_both() -> None:
    small, large = scene(1).resize((120, 100)), scene(1).resize((960, 800), Image.Resampling.BICUBIC)
    reach = {name: [control(name).describe(p).places.max() for p in (small, large)] for name in ("sift", "orb")}
    assert reach["sift"][0] < 120
    assert 300 < reach["orb"][0] < 480
    assert all(300 < places[1] < 480 for places in reach.values())
