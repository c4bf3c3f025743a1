import numpy as np
import pytest

from diptych.batch.parts.manifest import Step
from diptych.batch.parts.tokens import Tokens
from diptych.errors import BatchError

SHAPE = (2, 3, 5)
STEP = Step("pictures", 17, 7)


@pytest.fixture
def kept(tmp_path):
    """The tokens of 17 pictures in three parts, of which the 8th could not be read."""
    whole = np.random.default_rng(0).normal(size=(17, *SHAPE)).astype(np.float16)
    tokens = Tokens(tmp_path, STEP, SHAPE)
    for number in range(3):
        tokens.write(number, whole[slice(*STEP.bounds(number))], {1: "gone"} if number == 1 else {})
    return whole, tokens


def test_tokens_come_in_the_order_in_which_they_are_asked_for(kept):
    whole, tokens = kept
    places = np.random.default_rng(1).integers(0, 17, 101)
    np.testing.assert_array_equal(tokens.take(places), whole[places])
    assert tokens.take(places[:0]).shape == (0, *SHAPE)


def test_whoever_could_not_be_read_is_known_by_its_place(kept):
    _, tokens = kept
    assert tokens.errors([0, 8, 16, 8]) == {8: "gone"}


def test_a_part_written_twice_has_the_same_bytes_and_leaves_nothing_beside_it(kept, tmp_path):
    whole, tokens = kept
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    tokens.write(1, whole[7:14], {1: "gone"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(before) == 6


def test_a_file_that_was_cut_off_is_refused_with_what_to_remove(kept, tmp_path):
    (tmp_path / "tokens-000002.f16").write_bytes(b"short")
    with pytest.raises(BatchError, match=r"5 bytes, expected 180; remove it and pictures-000002.part and go on"):
        Tokens(tmp_path, STEP, SHAPE).take(np.array([16]))
