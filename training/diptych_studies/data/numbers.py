"""A parallel text that is drawn: the numbers below a million, in English words and in German ones.

German names the ones before the tens, and a tail of a hundred has no *and*: to translate, words change their places.
German writes a number as one word; here its parts stand apart, as the words of a sentence do.
"""

from diptych_training.errors import DataError

END = 1_000_000

_ENGLISH = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_ENGLISH_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_GERMAN = (
    *("null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"),
    *("dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"),
)
_GERMAN_TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")

WORDS = (
    *(*_ENGLISH, *_ENGLISH_TENS, "hundred", "thousand", "and"),
    *(*_GERMAN, *_GERMAN_TENS, "eins", "hundert", "tausend", "und"),
)
LONGEST = 11  # words of a number: nine hundred and ninety nine thousand, and as much again


def spell_english(number: int) -> list[str]:
    """Spell a number below a million in English words.

    As in *one hundred and forty two thousand and six*."""
    _check_number(number)
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _spell_english_below_thousand(rest)
    tail = [] if not rest else (["and"] if rest < 100 else []) + _spell_english_below_thousand(rest)
    return [*_spell_english_below_thousand(thousands), "thousand", *tail]


def spell_german(number: int) -> list[str]:
    """Spell a number below a million in German words.

    As in *ein hundert zwei und vierzig tausend sechs*."""
    _check_number(number)
    thousands, rest = divmod(number, 1000)
    tail = _spell_german_below_thousand(rest, last=True) if rest or not thousands else []
    return [
        *(_spell_german_below_thousand(thousands, last=False) if thousands else []),
        *(["tausend"] if thousands else []),
        *tail,
    ]


def _spell_english_below_thousand(number: int) -> list[str]:
    """Spell a number below a thousand in English words."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return [_ENGLISH[hundreds], "hundred", *(["and", *_spell_english_below_thousand(rest)] if rest else [])]
    if rest < 20:
        return [_ENGLISH[rest]]
    tens, ones = divmod(rest, 10)
    return [_ENGLISH_TENS[tens - 2], *([_ENGLISH[ones]] if ones else [])]


def _spell_german_below_thousand(number: int, *, last: bool) -> list[str]:
    """Spell a number below a thousand; at the end one is *eins*."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return [_GERMAN[hundreds], "hundert", *(_spell_german_below_thousand(rest, last=last) if rest else [])]
    if rest < 20:
        return ["eins" if rest == 1 and last else _GERMAN[rest]]
    tens, ones = divmod(rest, 10)
    return [*([_GERMAN[ones], "und"] if ones else []), _GERMAN_TENS[tens - 2]]


def _check_number(number: int) -> None:
    if not 0 <= number < END:
        raise DataError(f"numbers have words from 0 to {END - 1}, got {number}")
