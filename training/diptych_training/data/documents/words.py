"""Words for documents: a fixed vocabulary of pronounceable words, and numbers, dates and prices."""

from functools import lru_cache

import numpy as np

STARTS = ("b", "br", "c", "d", "f", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v")
VOWELS = ("a", "e", "i", "o", "u", "ea", "ou", "ai")
ENDS = ("", "", "", "n", "r", "s", "l", "t", "nd", "st")
WORDS = 1500


@lru_cache(1)
def make_vocabulary() -> tuple[str, ...]:
    """Return the words: the early ones short, as frequent words are."""
    rng = np.random.default_rng(7)
    return tuple(_make_word(rng, 1 if i < 150 else int(rng.integers(2, 4))) for i in range(WORDS))


def draw_words(rng: np.random.Generator, letters: int) -> str:
    """Return a line of words, at most so many letters but at least one word; the short words come most often."""
    picks = (WORDS * rng.random(letters // 4 + 1) ** 2).astype(int).tolist()
    line = " ".join(make_vocabulary()[pick] for pick in picks)
    return line if len(line) <= letters else line[: letters + 1].rpartition(" ")[0] or line.partition(" ")[0]


def draw_title(rng: np.random.Generator, letters: int) -> str:
    """Return a line of words of which the first is long and begins with a capital."""
    first = make_vocabulary()[int(rng.integers(150, WORDS))].capitalize()
    return f"{first} {draw_words(rng, letters - len(first) - 1)}" if letters > len(first) + 4 else first


def draw_name(rng: np.random.Generator) -> str:
    """Return one long word with a capital."""
    return draw_title(rng, 0)


def draw_number(rng: np.random.Generator, form: int) -> str:
    """Return digits in one of the forms 0 to 5: whole, price, share, date, time, code."""
    n = int(rng.integers(10**7))
    match form:
        case 0:
            return f"{n // 10 ** (n % 4):,}"
        case 1:
            return f"{n % 100000 / 100:.2f}"
        case 2:
            return f"{n % 1000 / 10:.1f}%"
        case 3:
            return f"{n % 28 + 1:02}.{n // 28 % 12 + 1:02}.{1980 + n // 336 % 60}"
        case 4:
            return f"{n % 24:02}:{n // 24 % 60:02}"
        case _:
            return f"{n:07}"


def _make_word(rng: np.random.Generator, syllables: int) -> str:
    parts = [STARTS[rng.integers(len(STARTS))] + VOWELS[rng.integers(len(VOWELS))] for _ in range(syllables)]
    return "".join(parts) + ENDS[rng.integers(len(ENDS))]
