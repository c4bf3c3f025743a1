import io

import numpy as np
import pytest
from PIL import Image
from typed import parsed

from diptych.bench.peers import PEERS, count_inliers, find_keypoints, normalise_tokens


def spots(seed: int) -> Image.Image:
    """Coarse noise, in which SIFT finds hundreds of keypoints."""
    noise = np.random.default_rng(seed).integers(0, 256, (30, 40, 3), np.uint8)
    return Image.fromarray(noise).resize((400, 300), Image.Resampling.BICUBIC)


def jpeg(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def test_sift_finds_a_turned_copy_and_not_another_picture() -> None:
    query, stranger = find_keypoints(jpeg(spots(0))), find_keypoints(jpeg(spots(1)))
    copy = find_keypoints(jpeg(spots(0).rotate(10, Image.Resampling.BICUBIC)))
    assert len(query.places) > 100
    assert count_inliers(query, copy) > 50
    assert count_inliers(query, stranger) < 10


def test_a_blank_picture_has_no_keypoints_and_no_inliers() -> None:
    blank = find_keypoints(jpeg(Image.new("RGB", (64, 48))))
    assert blank.descriptors.shape == (0, 128)
    assert count_inliers(find_keypoints(jpeg(spots(0))), blank) == count_inliers(blank, blank) == 0


def test_tokens_are_made_unit_vectors_and_a_zero_stays_one() -> None:
    tokens = np.random.default_rng(0).standard_normal((3, 2, 5, 7)).astype(np.float16)
    tokens[1, 0, 2] = 0
    unit = normalise_tokens(tokens)
    assert unit.shape == (3, 10, 7)
    lengths = np.linalg.norm(unit.astype(np.float64), axis=-1)
    assert lengths[1, 2] == 0
    np.testing.assert_allclose(np.delete(lengths.ravel(), 12), 1, atol=2e-3)


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_can_be_named_in_the_command(name: str) -> None:
    assert list(parsed("bench", "--peer", name)["peer"]) == [name]
