"""Pictures that a program draws: documents and free shapes."""

from itertools import combinations

import numpy as np
import pytest

from diptych_training.data import synthetic
from diptych_training.data.documents import GROUPS, KINDS, MEMBERS, draw_documents, kind_of
from diptych_training.data.synthetic import draw_pictures


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """The first 400 pictures, a hundred families."""
    return draw_documents(400, 32)


def test_the_same_seed_draws_the_same_documents_however_many_and_another_seed_others(pictures: np.ndarray) -> None:
    assert np.array_equal(draw_documents(MEMBERS * 7 + 1, 32), pictures[: MEMBERS * 7 + 1])
    assert not np.array_equal(draw_documents(MEMBERS, 32, seed=len(KINDS)), pictures[:MEMBERS])


def test_every_kind_is_in_one_group_and_a_group_is_drawn_alone(pictures) -> None:
    assert sorted(kind for group in GROUPS.values() for kind in group) == sorted(KINDS)
    assert {kind_of(family, seed=5) for family in range(len(KINDS))} == set(KINDS)
    assert [kind_of(family, kinds=GROUPS["codes"]) for family in (0, 1)] == ["qr", "barcode"]
    assert not np.array_equal(draw_documents(2 * MEMBERS, 32, kinds=GROUPS["codes"]), pictures[: 2 * MEMBERS])


def test_no_two_documents_are_the_same_and_none_is_of_one_colour(pictures: np.ndarray) -> None:
    flat = pictures.reshape(len(pictures), -1)
    assert len(np.unique(flat, axis=0)) == len(flat)
    assert (pictures.max((1, 2, 3)) > pictures.min((1, 2, 3))).all()


def test_members_of_a_family_are_alike_and_in_some_differ_in_a_small_part_only(pictures: np.ndarray) -> None:
    families = pictures.reshape(-1, MEMBERS, 32, 32, 3)
    changed = (families != families[:, :1]).any(-1).mean((2, 3))[:, 1:].max(1)
    assert 0.1 < (changed < 0.15).mean() < 0.4
    small = pictures.reshape(-1, MEMBERS, 16, 2, 16, 2, 3).mean((3, 5))
    within = np.mean([np.abs(small[:, a] - small[:, b]).mean() for a, b in combinations(range(MEMBERS), 2)])
    between = np.mean([np.abs(small[:, 0] - np.roll(small[:, 0], turn, 0)).mean() for turn in (1, 2, 3, len(KINDS))])
    assert within < between / 2


def test_drawn_pictures_are_those_of_their_seed_and_a_family_is_alike_in_colour() -> None:
    drawn = draw_pictures(20 * synthetic.MEMBERS, 32)
    assert np.array_equal(draw_pictures(6, 32), drawn[:6])
    assert not np.array_equal(draw_pictures(6, 32, seed=2), drawn[:6])
    assert len(np.unique(drawn.reshape(len(drawn), -1), axis=0)) == len(drawn)
    colours = drawn.astype(float).mean((1, 2)).reshape(20, synthetic.MEMBERS, 3)
    within = np.abs(colours - colours.mean(1, keepdims=True)).mean()
    assert within < np.abs(colours.mean(1) - colours.mean((0, 1))).mean() / 3
