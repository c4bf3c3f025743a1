"""Words and their vocabulary."""

import pytest

from diptych_studies.data.words import UNKNOWN, Vocabulary, words_of
from diptych_training.errors import DataError


def test_words_are_small_and_marks_are_words_of_their_own() -> None:
    assert words_of("The quick, Äpfel_2!\n".encode()) == ["the", "quick", ",", "äpfel_2", "!"]


def test_a_vocabulary_has_the_most_frequent_words_and_one_for_all_others() -> None:
    vocabulary = Vocabulary.build_from(b"b a c a b a d", 4)
    assert vocabulary.words == (UNKNOWN, "a", "b", "c")
    assert vocabulary.encode(b"a d c").tolist() == [1, 0, 3]
    assert vocabulary.decode([1, 3, 0]) == f"a c {UNKNOWN}"
    assert len(vocabulary) == 4


@pytest.mark.parametrize("words", [("a", "b"), (UNKNOWN,), (UNKNOWN, "a", "a")])
def test_what_is_no_vocabulary_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="each once"):
        Vocabulary(words)


def test_a_vocabulary_of_one_word_is_refused() -> None:
    with pytest.raises(DataError, match="2 words at least, got 1"):
        Vocabulary.build_from(b"a b", 1)
