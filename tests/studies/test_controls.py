"""The controls: what each takes for alike, and what they are asked on a search."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from diptych_model.checkpoint import save_checkpoint
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import PictureError
from diptych_studies.controls import CONTROLS, PerceptualHash, Sift, make_control, open_part, rank_by_control
from diptych_training.errors import DataError
from diptych_training.evaluation.galleries import Found, Search


@pytest.mark.parametrize(("name", "library"), [("phash", "imagehash"), ("sift", "cv2"), ("surf", "")])
def test_an_unknown_name_and_a_missing_library_are_refused(name: str, library: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    expected = rf"{name} needs `pip install 'diptych\[evaluate\]'`: .*{library}"
    with pytest.raises(DataError, match=expected if library else "no control is called 'surf'; known are phash"):
        make_control(name)


@pytest.mark.parametrize("name", list(CONTROLS))
def test_files_and_their_bytes_are_described_alike_and_a_damaged_one_is_refused(
    name: str, photo_bytes, tmp_path: Path
) -> None:
    data, path, measure = photo_bytes(3, (96, 64)), tmp_path / "photo.jpg", make_control(name)
    path.write_bytes(data)
    features = [measure.describe(source) for source in (path, data, photo_bytes(4, (96, 64)))]
    scores = measure.scores(features[0], features)
    assert (scores.dtype, scores.shape) == (np.float64, (3,))
    assert scores[0] == scores[1] > scores[2]
    assert (measure.name, measure.verifies) == (name, name == "sift")
    path.write_bytes(b"\xff\xd8\xff broken")
    with pytest.raises(PictureError, match=r"photo\.jpg"):
        measure.describe(path)


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


@pytest.mark.parametrize(
    "edit",
    [
        lambda picture: picture,
        lambda picture: picture.rotate(31, Image.Resampling.BICUBIC, expand=True),
        lambda picture: picture.resize((160, 133), Image.Resampling.BICUBIC),
        lambda picture: picture.resize((960, 800), Image.Resampling.BICUBIC),
        lambda picture: picture.crop((60, 40, 230, 190)),
    ],
    ids=["the same", "turned by 31 degrees", "two thirds the size", "four times the size", "a crop"],
)
def test_an_edited_picture_has_many_inliers_and_another_few(edit) -> None:
    sift = Sift()
    copy, other, asked = (sift.describe(picture) for picture in (scene(1), scene(2), edit(scene(1))))
    found, missed = sift.scores(asked, [copy, other])
    assert found >= 25
    assert missed < 10
    assert asked.places.max() < 480


def test_a_picture_is_most_like_itself_and_a_score_does_not_depend_on_the_pairs_before_it() -> None:
    sift = Sift()
    described = [sift.describe(scene(seed)) for seed in range(3)]
    described.append(sift.describe(scene(0).rotate(9)))
    scores = sift.scores(described[0], described)
    assert scores.argmax() == 0
    assert sift.scores(described[0], described[::-1]).tolist() == scores[::-1].tolist()
    assert [sift.scores(described[0], [d])[0] for d in described] == scores.tolist()


def test_the_matches_are_those_of_opencvs_own_matcher() -> None:
    import cv2

    sift = Sift()
    a, b = (sift.describe(picture) for picture in (scene(1).rotate(7), scene(1)))
    first, second = a.descriptors.astype(np.float32), b.descriptors.astype(np.float32)
    matcher = cv2.BFMatcher(cv2.NORM_L2)
    best = [near for near, far in matcher.knnMatch(first, second, k=2) if near.distance < 0.8 * far.distance]
    back = {(m.trainIdx, m.queryIdx) for m in matcher.match(second, first)}
    expected = [(m.queryIdx, m.trainIdx) for m in best if (m.queryIdx, m.trainIdx) in back]
    assert len(expected) > 25
    assert list(zip(*(places.tolist() for places in sift.matches(a, b)), strict=True)) == expected


def test_a_picture_is_nearest_to_itself_and_its_negative_differs_in_almost_every_bit(photo) -> None:
    phash, picture = PerceptualHash(), photo(1)
    hashes = [phash.describe(picture), phash.describe(photo(2)), phash.describe(picture.point(lambda v: 255 - v))]
    scores = phash.scores(hashes[0], hashes)
    assert scores[0] == 0
    assert -64 <= scores[2] < scores[1] < 0
    assert scores[2] <= -60


class Brightness:
    """Knows a picture by its mean; `asked` are how many references each query was compared with."""

    name = "brightness"

    def __init__(self, *, verifies: bool) -> None:
        self.verifies, self.asked = verifies, list[int]()

    def describe(self, picture: PictureSource) -> float:
        assert isinstance(picture, Path)
        return float(np.asarray(Image.open(picture).convert("L")).mean())

    def scores(self, query: float, references: Sequence[float]) -> np.ndarray:
        self.asked.append(len(references))
        return -np.abs(np.array(references) - query)


def test_a_control_ranks_the_whole_gallery_and_one_that_verifies_only_our_candidates(tmp_path: Path) -> None:
    files = [tmp_path / f"{grey}.png" for grey in (10, 90, 170, 250)]
    for file in files:
        Image.new("RGB", (16, 16), (int(file.stem),) * 3).save(file)
    own = [np.array([i]) for i in range(4)]
    search = Search(files, files, own, [np.empty(0, np.int64)] * 4, 2)
    order = np.array([[1, 3], [2, 1], [0, 3], [2, 0]])
    first = Found(order, -np.arange(8.0).reshape(4, 2), np.zeros((4, 2), int), (np.array([3]),) * 4)
    ranks, verifies = Brightness(verifies=False), Brightness(verifies=True)
    alone, verified = (rank_by_control(one, search, first, lambda items, *_: items) for one in (ranks, verifies))
    assert (ranks.asked, verifies.asked) == ([4] * 4, [2] * 4)
    assert alone.order[:, 0].tolist() == [0, 1, 2, 3]
    assert verified.order.tolist() == [[1, 3], [1, 2], [3, 0], [2, 0]]


@pytest.mark.slow
def test_a_model_s_panel_part_is_measured_alone_by_late_interaction_and_by_its_embedding(
    tiny_network, tmp_path: Path
) -> None:
    save_checkpoint(tiny_network, checkpoint := tmp_path / "best")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    with open_part(f"late:{checkpoint}") as late, open_part(f"twin:{checkpoint}") as twin:
        tokens, embeddings = late.encode(pixels)
        a, b = (t.astype(np.float64).reshape(len(t), -1, t.shape[-1]) for t in (tokens[:1], tokens[1:]))
        a, b = (t / np.linalg.norm(t, axis=-1, keepdims=True) for t in (a, b))
        cosines = a @ b.transpose(0, 2, 1)
        best = (cosines.max(1).mean(1) + cosines.max(2).mean(1)) / 2
        np.testing.assert_allclose(late.pair_logits(tokens[:1], tokens[1:]), 10 * best - 5, atol=1e-2)
        seen = twin.encode(pixels)
        np.testing.assert_allclose(seen.embeddings, embeddings, atol=1e-6)
        expected = 10 * embeddings[:1] @ embeddings[1:].T - 5
        np.testing.assert_allclose(twin.pair_logits(seen.tokens[:1], seen.tokens[1:]), expected[0], atol=1e-2)
        assert late.name == f"late:{checkpoint.name}"
