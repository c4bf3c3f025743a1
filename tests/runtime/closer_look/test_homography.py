"""The homography of matches against the one that they were made by, and against OpenCV's RANSAC."""

import numpy as np
import pytest

from diptych_runtime.closer_look.homography import fit_homography, is_plausible

ERROR = 4.0
SIZE = 400, 300


def laid(seed: int, slant: float) -> np.ndarray:
    """A homography that moves, turns and magnifies a picture, and slants it a little."""
    rng = np.random.default_rng(seed)
    angle, scale = rng.uniform(-0.5, 0.5), rng.uniform(0.6, 1.6)
    turned = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    last = np.append(rng.uniform(-slant, slant, 2), 1)
    return np.vstack([np.column_stack([turned, rng.uniform(-30, 30, 2)]), last])


def moved(homography: np.ndarray, places: np.ndarray) -> np.ndarray:
    found = np.column_stack([places, np.ones(len(places))]) @ homography.T
    return found[:, :2] / found[:, 2:]


def matches(
    seed: int, count: int, right: int, spread: float = 1.0, slant: float = 2e-4
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places in two pictures, the first `right` of which lie on `laid` but for `spread` pixels, and how each match
    turns and magnifies, right but for a tenth or so; the others are anywhere. And the homography.
    """
    rng, homography = np.random.default_rng(seed), laid(seed, slant)
    a = rng.uniform((0, 0), SIZE, (count, 2))
    b = moved(homography, a) + rng.normal(0, spread, (count, 2))
    beside = moved(homography, a + np.array([1, 0])) - moved(homography, a)
    turns = (beside[:, 0] + 1j * beside[:, 1]) * np.exp(rng.normal(0, 0.06, count) + 1j * rng.normal(0, 0.06, count))
    b[right:] = rng.uniform((0, 0), SIZE, (count - right, 2))
    turns[right:] = np.exp(rng.normal(0, 0.5, count - right) + 1j * rng.uniform(0, 2 * np.pi, count - right))
    return a.astype(np.float32), b.astype(np.float32), turns.astype(np.complex64), homography


@pytest.mark.parametrize(("count", "right"), [(8, 8), (30, 12), (120, 20), (400, 20), (400, 380)])
def test_it_finds_the_matches_that_are_right_and_lays_the_picture_where_they_do(count, right):
    for seed in range(10):
        # A dozen says how slanted a picture is; fewer are taken for a flat one.
        a, b, turns, expected = matches(seed, count, right, slant=2e-4 if right > 12 else 5e-5)
        found, inliers = fit_homography(a, b, turns, ERROR)
        assert found is not None
        assert is_plausible(found, SIZE)
        assert inliers[:right].mean() > 0.9
        assert inliers[right:].sum() <= 2 + 0.02 * count
        middle = np.array([[200.0, 150.0]])
        assert np.linalg.norm(moved(found, middle) - moved(expected, middle)) < 3


@pytest.mark.parametrize("count", [8, 50, 400])
def test_of_matches_anywhere_hardly_any_agree(count):
    for seed in range(10):
        a, b, turns, _ = matches(seed, count, 0)
        assert fit_homography(a, b, turns, ERROR)[1].sum() < 8


def test_places_that_say_nothing_of_a_plane_give_none():
    a, b, turns, _ = matches(2, 20, 20)
    for few in (0, 1, 4):
        found, inliers = fit_homography(a[:few], b[:few], turns[:few], ERROR)
        assert found is None
        assert inliers.tolist() == [False] * few
    for same in (np.full_like(b, 7), np.column_stack([b[:, 0], np.full(len(b), 7, np.float32)])):
        found, _ = fit_homography(a, same, turns, ERROR)
        assert found is None or not is_plausible(found, SIZE)
