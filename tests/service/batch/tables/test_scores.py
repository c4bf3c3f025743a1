import numpy as np
import pytest

from diptych.batch.tables.scores import Scores, shortest
from diptych.errors import BatchError
from diptych_runtime.judgement import Judgement

ONE = Scores.of(
    [
        Judgement(0.1, 1, "different"),
        None,
        Judgement(0.3, 3, "likely", "taken"),
        Judgement(0.2, 2, "unsure", "not taken"),
    ],
    {1: "image_a: gone"},
)


def test_scores_are_written_in_the_fewest_digits_that_mean_the_same_float32():
    for value in np.random.default_rng(0).normal(size=97).astype(np.float32):
        assert np.float32(shortest(value)) == value
        assert len(repr(shortest(value))) <= 16
    assert shortest(np.float32(0.1)) == 0.1


def test_pieces_joined_again_are_the_whole():
    whole = Scores.joined([ONE, ONE[1:], ONE[:0]])
    expected = [
        (0.1, 1.0, "different", None, None),
        (None, None, None, None, "image_a: gone"),
        (0.3, 3.0, "likely", "taken", None),
        (0.2, 2.0, "unsure", "not taken", None),
    ]
    assert list(whole.results()) == [*expected, *expected[1:]]
    assert list(whole[4:].results()) == expected[1:]
    assert (whole.closer_looks, whole[4:].closer_looks) == (2, 1)
    assert len(Scores.joined([])) == 0


def test_the_file_reads_back_and_the_same_scores_make_the_same_bytes(tmp_path):
    path = tmp_path / "part"
    path.write_bytes(ONE.to_bytes())
    assert list(Scores.load(path).results()) == list(ONE.results())
    assert Scores.load(path).to_bytes() == ONE.to_bytes()


@pytest.mark.parametrize("size", [0, 7, 130, -1])
def test_a_file_that_was_cut_off_is_refused_by_name(tmp_path, size):
    (tmp_path / "part").write_bytes(ONE.to_bytes()[:size])
    with pytest.raises(BatchError, match=r"part is damaged .*; remove it and go on with --resume"):
        Scores.load(tmp_path / "part")
