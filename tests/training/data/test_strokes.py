"""Invented alphabets: strokes that characters share, and hands that draw them each in their way."""

from dataclasses import replace

import numpy as np
import pytest

from diptych_training.data.strokes import CANVAS, Alphabet, Stroke, draw_by_hand

LINE = Stroke(heading=0.0, lengths=np.array([1.0]), turns=np.zeros(1), corners=np.zeros(0), place=np.array([0.25, 0.5]))


def test_a_stroke_runs_where_its_heading_turns_and_corners_lead() -> None:
    path = LINE.path(None)
    np.testing.assert_allclose(path.mean(0), LINE.place)
    np.testing.assert_allclose(path[-1] - path[0], [1, 0], atol=1e-12)
    quarter = replace(LINE, turns=np.array([np.pi / 2])).path(None)
    # A quarter of a circle of circumference 4.
    np.testing.assert_allclose(quarter[-1] - quarter[0], [2 / np.pi, 2 / np.pi], atol=0.05)
    corner = replace(LINE, lengths=np.array([1.0, 0.5]), turns=np.zeros(2), corners=np.array([np.pi / 2])).path(None)
    np.testing.assert_allclose(corner[-1] - corner[0], [1, 0.5], atol=1e-12)


@pytest.mark.parametrize("along", [0.0, 0.5, 1.0])
def test_a_stroke_that_hangs_on_another_begins_there(along: float) -> None:
    before = LINE.path(None)
    path = replace(LINE, heading=np.pi / 2, along=along).path(before)
    np.testing.assert_allclose(path[0], before[round(along * (len(before) - 1))])
    np.testing.assert_allclose(path[-1] - path[0], [0, 1], atol=1e-12)


def test_hands_differ_less_than_characters() -> None:
    rng = np.random.default_rng(5)
    near, far = [], []
    for seed in range(8):
        characters, again = (Alphabet(np.random.default_rng(seed), 12).characters for _ in range(2))
        first, same = (draw_by_hand(letters[0], np.random.default_rng(1), 28) for letters in (characters, again))
        assert np.array_equal(first, same)
        one, other = (np.stack([draw_by_hand(c, rng, 28) for c in characters]).astype(float) for _ in range(2))
        apart = np.sqrt(((_soft(one)[:, None] - _soft(other)[None]) ** 2).sum((2, 3)))
        near += list(apart.diagonal())
        far += list(apart[~np.eye(len(apart), dtype=bool)])
        assert (one != other).any((1, 2)).all(), "no hand draws a character as the other did"
    assert np.mean(near) < 0.8 * np.mean(far)


def test_a_drawing_is_ink_that_fills_its_sheet_and_is_hardly_cut_off() -> None:
    rng = np.random.default_rng(6)
    for strokes in Alphabet(rng, 40).characters:
        ink = draw_by_hand(strokes, rng, CANVAS)
        assert ink.dtype == np.uint8
        rows, columns = np.nonzero(ink)
        assert set(np.unique(ink)) == {0, 255}
        assert max(np.ptp(rows), np.ptp(columns)) > CANVAS / 4
        assert (ink > 0).sum() - (ink[1:-1, 1:-1] > 0).sum() < 0.05 * (ink > 0).sum()


def test_characters_of_an_alphabet_share_strokes() -> None:
    shared = []
    for seed in range(10):
        characters = Alphabet(np.random.default_rng(seed), 20).characters
        assert len(characters) == 20
        assert all(1 <= len(strokes) <= 4 for strokes in characters)
        kinds = [{tuple(stroke.lengths) + tuple(stroke.turns) for stroke in strokes} for strokes in characters]
        shared.append(np.mean([bool(a & b) for i, a in enumerate(kinds) for b in kinds[:i]]))
    assert np.mean(shared) > 0.25


def _soft(ink: np.ndarray) -> np.ndarray:
    """Ink (n, S, S) blurred, so that a stroke a little aside is a little apart."""
    padded = np.pad(ink, ((0, 0), (3, 3), (3, 3)))
    size = ink.shape[1]
    return np.mean([padded[:, i : i + size, j : j + size] for i in range(7) for j in range(7)], 0)
