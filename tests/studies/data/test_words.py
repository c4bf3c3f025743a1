"""Words and their vocabulary."""

from diptych_studies.data.words import UNKNOWN, Vocabulary, words_of


def test_words_are_small_and_marks_are_words_of_their_own() -> None:
    assert words_of("The quick, Äpfel_2!\n".encode()) == ["the", "quick", ",", "äpfel_2", "!"]


def test_a_vocabulary_has_the_most_frequent_words_and_one_for_all_others() -> None:
    vocabulary = Vocabulary.build_from(b"b a c a b a d", 4)
    assert vocabulary.words == (UNKNOWN, "a", "b", "c")
    assert vocabulary.encode(b"a d c").tolist() == [1, 0, 3]
    assert vocabulary.decode([1, 3, 0]) == f"a c {UNKNOWN}"
    assert len(vocabulary) == 4
