"""Numbers in words: those that grammars give as examples, and that no two numbers have the same words."""

import pytest

from diptych_studies.data.numbers import END, LONGEST, WORDS, spell_english, spell_german


@pytest.mark.parametrize(
    ("number", "in_english", "in_german"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (16, "sixteen", "sechzehn"),
        (21, "twenty one", "ein und zwanzig"),
        (101, "one hundred and one", "ein hundert eins"),
        (342, "three hundred and forty two", "drei hundert zwei und vierzig"),
        (1_001, "one thousand and one", "ein tausend eins"),
        (21_000, "twenty one thousand", "ein und zwanzig tausend"),
        (142_006, "one hundred and forty two thousand and six", "ein hundert zwei und vierzig tausend sechs"),
    ],
)
def test_a_number_has_the_words_of_its_language(number: int, in_english: str, in_german: str) -> None:
    assert " ".join(spell_english(number)) == in_english
    assert " ".join(spell_german(number)) == in_german


def test_no_two_numbers_have_the_same_words_and_none_has_more_than_the_longest() -> None:
    numbers = [*range(10_000), *range(10_000, END, 97), END - 1]
    for spelled in (spell_english, spell_german):
        written = [tuple(spelled(number)) for number in numbers]
        assert len(set(written)) == len(numbers)
        assert max(map(len, written)) == LONGEST
        assert {word for words in written for word in words} <= set(WORDS)
    assert len(set(WORDS)) == len(WORDS)
