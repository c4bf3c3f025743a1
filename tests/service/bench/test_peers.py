import io

import numpy as np
from PIL import Image

from diptych.bench.peers import PEERS, cost_candidates, count_inliers, find_keypoints, normalise_tokens


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


def test_only_the_peers_that_ran_have_costs() -> None:
    times = {
        "diptych read": 2.0,
        "diptych 1": 1.0,
        "diptych 32": 16.0,
        "diptych 100": 40.0,
        "sift read": 9.0,
        "sift 1": 4.0,
    }
    found = cost_candidates(times)
    assert list(found) == ["diptych", "sift"]
    assert set(found) - {"diptych"} < set(PEERS)
    assert found["diptych"]["stored"] == {"1": 3.0, "32": 18 / 32, "100": 0.42}
    assert found["sift"]["stored"] == {"1": 13.0, "32": 4 + 9 / 32, "100": 4.09}
    assert found["sift"]["files"] == {"1": 22.0, "32": 4 + 33 * 9 / 32, "100": 4 + 101 * 9 / 100}
