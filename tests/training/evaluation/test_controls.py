"""The controls: what each takes for alike, and that the order of a pair says nothing."""

import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from diptych_runtime.errors import PictureError
from diptych_training.data.archives import data_folder
from diptych_training.errors import DataError
from diptych_training.evaluation.controls import (
    CONTROLS,
    BlurredPixels,
    ColourHistogram,
    Keypoints,
    ModifiedHausdorff,
    PerceptualHash,
    make_control,
    make_orb,
    make_sift,
)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        DataError, match="no control is called 'surf'; known are phash, histogram, pixels, sift, orb, mhd"
    ):
        make_control("surf")


@pytest.mark.parametrize(
    ("name", "library"), [("phash", "imagehash"), ("sift", "cv2"), ("orb", "cv2"), ("mhd", "scipy.spatial")]
)
def test_a_missing_library_is_named_with_the_line_that_installs_it(
    name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(DataError, match=rf"{name} needs `pip install 'diptych\[evaluate\]'`: .*{library}"):
        make_control(name)


@pytest.mark.parametrize("name", ["histogram", "pixels"])
def test_these_need_no_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("imagehash", "cv2", "scipy", "scipy.spatial"):
        monkeypatch.setitem(sys.modules, library, None)
    assert make_control(name).name == name


@pytest.mark.parametrize("name", list(CONTROLS))
def test_every_control_says_its_name_and_only_the_dear_ones_verify(name: str) -> None:
    assert make_control(name).name == name
    assert make_control(name).verifies == (name in ("sift", "orb"))


@pytest.mark.parametrize("name", list(CONTROLS))
def test_files_and_their_bytes_are_described_alike_and_scored_as_float64(
    name: str, photo_bytes, tmp_path: Path
) -> None:
    data, path, measure = photo_bytes(3, (96, 64)), tmp_path / "photo.jpg", make_control(name)
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
    measure, rng = make_control(name), np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    features = [measure.describe(p) for p in (Image.new("RGB", size, "white"), Image.new("RGB", size, "black"), noise)]
    scores = np.stack([measure.scores(feature, features) for feature in features])
    assert np.isfinite(scores).all()
    assert (scores[2] <= scores[2, 2]).all()


@pytest.mark.parametrize("name", list(CONTROLS))
def test_a_damaged_file_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    with pytest.raises(PictureError, match=r"broken\.jpg"):
        make_control(name).describe(tmp_path / "broken.jpg")


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


def test_a_picture_shares_all_colours_with_itself_wherever_its_pixels_lie(photo) -> None:
    histogram, picture = ColourHistogram(), photo(1, (50, 34))
    pixels = np.asarray(picture)
    shuffled = np.random.default_rng(0).permutation(pixels.reshape(-1, 3)).reshape(pixels.shape)
    described = histogram.describe(picture)
    scores = histogram.scores(described, [histogram.describe(p) for p in (picture, shuffled, photo(2, (50, 34)))])
    assert scores[:2] == pytest.approx([1, 1])
    assert 0 <= scores[2] < 0.9


def test_the_intersection_is_the_shared_area_and_the_size_of_the_picture_does_not_count() -> None:
    histogram = ColourHistogram()
    red, blue = (Image.new("RGB", (20, 10), colour) for colour in ("red", "blue"))
    flag = Image.new("RGB", (40, 30), "red")
    flag.paste((0, 0, 255), (0, 0, 10, 30))
    features = [histogram.describe(picture) for picture in (red, blue, flag)]
    assert histogram.scores(features[2], features) == pytest.approx([0.75, 0.25, 1])
    assert histogram.scores(features[0], features) == pytest.approx([1, 0, 0.75])


def test_the_three_channels_have_places_of_their_own() -> None:
    histogram = ColourHistogram()
    colours = [(200, 100, 7), (200, 7, 100), (100, 200, 7), (7, 100, 200)]
    features = [histogram.describe(Image.new("RGB", (9, 9), colour)) for colour in colours]
    assert [histogram.scores(f, features).tolist() for f in features] == np.eye(4).tolist()


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
    features = make_control(name)
    copy, other, asked = (features.describe(picture) for picture in (scene(1), scene(2), edit(scene(1))))
    found, missed = features.scores(asked, [copy, other])
    assert found >= 25
    assert missed < 10


@pytest.mark.parametrize("name", ["sift", "orb"])
def test_a_picture_is_most_like_itself_and_a_score_does_not_depend_on_the_pairs_before_it(name: str) -> None:
    features = make_control(name)
    described = [features.describe(scene(seed)) for seed in range(3)]
    described.append(features.describe(scene(0).rotate(9)))
    scores = features.scores(described[0], described)
    assert scores.argmax() == 0
    assert features.scores(described[0], described[::-1]).tolist() == scores[::-1].tolist()
    assert [features.scores(described[0], [d])[0] for d in described] == scores.tolist()
    again = make_control(name)
    assert again.scores(again.describe(scene(0)), [again.describe(scene(0).rotate(9))]) == scores[3]


@pytest.mark.parametrize("name", ["sift", "orb"])
@pytest.mark.parametrize("size", [(8, 8), (300, 200), (9, 2000)])
def test_blank_pictures_have_no_keypoints_and_score_zero_with_everything(name: str, size: tuple[int, int]) -> None:
    features = make_control(name)
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
    asked, answered = make_sift().matches(keypoints(10, 12, 100, 201), keypoints(11, 90, 111, 200))
    assert asked.tolist() == [0, 3]
    assert answered.tolist() == [0, 3]


@pytest.mark.parametrize(
    ("make", "norm", "kind"), [(make_sift, "NORM_L2", np.float32), (make_orb, "NORM_HAMMING", np.uint8)]
)
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
    reach = {name: [make_control(name).describe(p).places.max() for p in (small, large)] for name in ("sift", "orb")}
    assert reach["sift"][0] < 120
    assert 300 < reach["orb"][0] < 480
    assert all(300 < places[1] < 480 for places in reach.values())


def test_a_picture_is_nearest_to_itself_and_its_negative_differs_in_almost_every_bit(photo) -> None:
    phash, picture = PerceptualHash(), photo(1)
    hashes = [phash.describe(picture), phash.describe(photo(2)), phash.describe(picture.point(lambda v: 255 - v))]
    scores = phash.scores(hashes[0], hashes)
    assert scores[0] == 0
    assert -64 <= scores[2] < scores[1] < 0
    assert scores[2] <= -60


def test_the_score_counts_differing_bits_whichever_picture_asks() -> None:
    phash = PerceptualHash()
    a, b = np.zeros(64, bool), np.zeros(64, bool)
    b[[3, 11, 60]] = True
    assert phash.scores(a, [b]).tolist() == phash.scores(b, [a]).tolist() == [-3.0]


def drawing(*lines: tuple[int, ...], shift: tuple[int, int] = (0, 0)) -> Image.Image:
    """Black strokes on white paper, 105 x 105, moved by (x, y)."""
    paper = Image.new("L", (105, 105), 255)
    for x0, y0, x1, y1 in lines:
        dx, dy = shift
        ImageDraw.Draw(paper).line((x0 + dx, y0 + dy, x1 + dx, y1 + dy), fill=0, width=3)
    return paper


CROSS = ((40, 30, 40, 70), (25, 50, 60, 50))
RAFTERS = ((30, 70, 45, 30), (45, 30, 60, 70))


def test_a_drawing_is_itself_wherever_it_stands_on_the_paper() -> None:
    pixels = BlurredPixels()
    moved = [drawing(*CROSS, shift=shift) for shift in ((0, 0), (31, 0), (0, -23), (-20, 30))]
    features = [pixels.describe(picture) for picture in moved]
    scores = pixels.scores(features[0], [*features, pixels.describe(drawing(*RAFTERS))])
    assert scores[:4] == pytest.approx(np.ones(4), abs=1e-5)
    assert scores[4] < 0.8


def test_the_cosine_is_the_same_whichever_picture_asks(photo) -> None:
    pixels = BlurredPixels()
    a, b = pixels.describe(photo(1)), pixels.describe(photo(2))
    assert pixels.scores(a, [b]) == pytest.approx(pixels.scores(b, [a]))
    assert pixels.scores(a, [b])[0] < pixels.scores(a, [a])[0] == pytest.approx(1)
