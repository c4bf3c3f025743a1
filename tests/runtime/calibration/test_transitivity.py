"""What follows from three pairs of three pictures: a copy of a copy is a copy."""

from itertools import product

import numpy as np
import pytest

from diptych_runtime.calibration.transitivity import SHARPER, Transitivity, open_pairs

PAIRS = np.array([(0, 1), (0, 2), (1, 2)])


def together(*scores: float, pairs: np.ndarray = PAIRS, least: float = 0.0) -> list[float]:
    """The scores of pairs as they are together."""
    known = np.array(scores)
    return Transitivity(int(pairs.max()) + 1, pairs, known).make_consistent(pairs, known, least).tolist()


def test_of_three_pictures_two_matches_of_one_that_do_not_match_each_other_are_not_both_right():
    likelier, less, none = together(0.99, 0.9, 0.001)
    assert likelier == pytest.approx(0.99, abs=0.01)
    assert less == pytest.approx(0.01, abs=0.01)
    assert none == pytest.approx(0.001, abs=1e-3)


def test_it_is_the_share_of_what_is_possible_in_which_two_are_copies():
    x, y, z = 0.7, 0.6, 0.4  # the last pair says no: the product is exact
    odds = [p / (1 - p) for p in (x, y, z)]
    odds[1] *= (odds[1] / odds[0]) ** (SHARPER - 1)  # by how much the rival is less likely counts more than that it is
    shares: dict[tuple[bool, ...], float] = {}
    for copies in product((False, True), repeat=3):
        if sum(copies) != 2:  # two pairs of three are never copies without the third
            shares[copies] = float(np.prod([o if one else 1 for o, one in zip(odds, copies, strict=True)]))
    expected = sum(share for copies, share in shares.items() if copies[0]) / sum(shares.values())
    assert together(x, y, z)[0] == pytest.approx(expected, abs=1e-6)


def test_copies_of_one_picture_stay_what_they_are():
    for scores in ((0.97, 0.97, 0.97), (0.97, 0.95, 0.55), (1.0, 0.88, 0.88)):
        assert together(*scores) == list(scores)


def test_a_pair_that_was_misjudged_is_outvoted_by_those_that_confirm_each_other():
    pairs = np.array([(a, b) for a in range(12) for b in range(a + 1, 12)])
    scores = np.full(len(pairs), 0.97)
    scores[(pairs == (0, 1)).all(1)] = 0.01
    assert together(*scores, pairs=pairs) == scores.tolist()
    few = (pairs < 4).all(1)  # one confirms, beside the one that contradicts
    left = together(*scores[few], pairs=pairs[few])
    assert min(left[1:5]) < 0.9
    assert left[5] == 0.97


def test_no_score_gets_higher_and_the_same_pixels_stay_the_same():
    rng = np.random.default_rng(0)
    pairs = np.array([(a, b) for a in range(12) for b in range(a + 1, 12)])
    scores = np.where(rng.random(len(pairs)) < 0.1, 1.0, rng.random(len(pairs)))
    found = Transitivity(12, pairs, scores).make_consistent(pairs, scores)
    assert (found <= scores).all()
    assert (found[scores == 1] == 1).all()
    assert (found < scores).any()


def test_what_was_never_compared_says_nothing():
    pairs = PAIRS[:2]
    assert together(0.99, 0.9, pairs=pairs) == [0.99, 0.9]
    assert open_pairs(pairs, np.array([0.99, 0.9]), 0.5).tolist() == [[1, 2]]
    assert open_pairs(pairs, np.array([0.99, 0.4]), 0.5).tolist() == []
    assert open_pairs(PAIRS, np.array([0.99, 0.9, 0.1]), 0.5).tolist() == []


def test_scores_below_the_least_are_left_alone():
    assert together(0.6, 0.55, 0.001, least=0.58)[1:] == [0.55, 0.001]
