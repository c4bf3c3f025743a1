"""The homography of matches against the one that OpenCV finds: the same to the last bit."""

import cv2
import numpy as np
import pytest

from diptych_runtime.closer_look import homography as module
from diptych_runtime.closer_look.homography import CONFIDENCE, ITERATIONS, fit_homography

ERROR = 4.0


def matches(seed: int, count: int, right: float, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Places in two pictures of 400 x 300, of which a share lies on a homography but for `spread` pixels."""
    rng = np.random.default_rng(seed)
    a = rng.uniform((0, 0), (400, 300), (count, 2))
    laid = np.array([[0.9, 0.1, 12], [-0.08, 1.1, -20], [2e-4, -1e-4, 1]]) + rng.normal(0, 1e-5, (3, 3))
    b = np.column_stack([a, np.ones(count)]) @ laid.T
    b = b[:, :2] / b[:, 2:] + rng.normal(0, spread, (count, 2))
    wrong = rng.random(count) >= right
    b[wrong] = rng.uniform((0, 0), (400, 300), (int(wrong.sum()), 2))
    return a.astype(np.float32), b.astype(np.float32)


def by_opencv(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    found, mask = cv2.findHomography(a, b, cv2.RANSAC, ERROR, maxIters=ITERATIONS, confidence=CONFIDENCE)
    return found, np.zeros(len(a), bool) if mask is None else mask.ravel() > 0


def assert_as_opencv(a: np.ndarray, b: np.ndarray) -> int:
    """Compare, and return the number of inliers that both found."""
    (found, inliers), (expected, mask) = fit_homography(a, b, ERROR), by_opencv(a, b)
    if found is None:  # what explains four matches alone is not told
        assert mask.sum() <= 4
        return 0
    assert expected is not None
    assert np.array_equal(found, expected)
    assert inliers.tolist() == mask.tolist()
    return int(inliers.sum())


@pytest.mark.parametrize("right", [0.0, 0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("count", [8, 9, 13, 31, 120, 600])
def test_it_is_that_of_opencv_whatever_share_of_the_matches_is_right(count, right):
    kept = [assert_as_opencv(*matches(seed, count, right, 1.0 + seed % 3)) for seed in range(8)]
    assert right < 0.3 or right * count < 8 or max(kept) >= right * count / 2


def test_it_is_that_of_opencv_where_keypoints_share_places_or_lie_on_lines():
    """Several keypoints in one place, as SIFT finds them for several directions; columns, rows, and no plane at all."""
    rng = np.random.default_rng(5)
    kept = []
    for seed in range(12):
        a, b = matches(seed, 40, 0.5)
        a[20:], b[30:] = a[:20], b[20:30]
        kept.append(assert_as_opencv(a, b))
        kept.append(assert_as_opencv(np.round(a / 50) * 50, np.round(b / 50) * 50))
        line = np.float32(seed % 2)
        a[5:, 0] = a[5:, 0] * (1 - line) + 200 * line
        a[5:, 1] = a[5:, 1] * line + 150 * (1 - line)
        kept.append(assert_as_opencv(a, b))
        kept.append(assert_as_opencv(a, rng.uniform(0, 1e-3, b.shape).astype(np.float32)))
    assert max(kept) >= 8


def test_opencv_itself_solves_what_is_too_close_to_the_limit_to_be_sure_of(monkeypatch):
    asked, real = [], module._exact_errors

    def exact(a, b, four):
        asked.append(four)
        return real(a, b, four)

    monkeypatch.setattr(module, "_exact_errors", exact)
    monkeypatch.setattr(module, "_CLOSE", 0.5)
    assert assert_as_opencv(*matches(3, 60, 0.5)) >= 20
    assert asked


def test_opencv_itself_goes_on_where_there_are_no_more_draws(monkeypatch):
    monkeypatch.setattr(module, "_DRAWS", 512)
    module._draws.cache_clear()
    module._sets.cache_clear()
    try:
        assert assert_as_opencv(*matches(1, 50, 0.3)) >= 10
        with pytest.raises(module._OutOfDrawsError):
            module._inliers(*matches(1, 50, 0.0), np.float32(16))
    finally:
        module._draws.cache_clear()
        module._sets.cache_clear()


def test_sets_have_four_different_matches_and_follow_each_other():
    for count in (5, 8, 77):
        first, second = (module._sets(count, block) for block in (0, 1))
        for sets, _ in (first, second):
            assert sets.shape[0] == 4
            assert sets.max() < count
            assert all(len(set(four)) == 4 for four in sets.T.tolist())
        assert 4 * first[0].shape[1] <= first[1] < second[1]
