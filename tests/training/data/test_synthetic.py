import numpy as np

from diptych_training.data.synthetic import MEMBERS, draw_pictures


def test_the_same_seed_draws_the_same_pictures_and_another_seed_others() -> None:
    assert np.array_equal(draw_pictures(6, 32, seed=1), draw_pictures(6, 32, seed=1))
    assert not np.array_equal(draw_pictures(6, 32, seed=1), draw_pictures(6, 32, seed=2))


def test_a_family_is_alike_in_colour_and_no_two_pictures_are_the_same() -> None:
    pictures = draw_pictures(20 * MEMBERS, 32).astype(float)
    colours = pictures.mean((1, 2)).reshape(20, MEMBERS, 3)
    within = np.abs(colours - colours.mean(1, keepdims=True)).mean()
    between = np.abs(colours.mean(1) - colours.mean((0, 1))).mean()
    assert within < between / 3
    assert len(np.unique(pictures.reshape(len(pictures), -1), axis=0)) == len(pictures)
