"""Words for language models: a text cut into words and marks, and the vocabulary of the most frequent ones."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from diptych_training.errors import DataError

UNKNOWN = "?unknown"  # no text has it as one word
_WORDS = re.compile(r"\w+|[^\w\s]")


def words_of(data: bytes) -> list[str]:
    """The words of a text in small letters, every punctuation mark a word of its own; spaces are left out."""
    return _WORDS.findall(data.decode("utf-8", "replace").lower())


@dataclass(frozen=True)
class Vocabulary:
    """Words by number; the first stands for every word that has none."""

    words: tuple[str, ...]
    numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.words) < 2 or self.words[0] != UNKNOWN or len(set(self.words)) != len(self.words):
            raise DataError(f"a vocabulary is {UNKNOWN} and other words, each once, got {self.words[:5]}")
        object.__setattr__(self, "numbers", {word: number for number, word in enumerate(self.words)})

    @classmethod
    def build_from(cls, data: bytes, size: int) -> "Vocabulary":
        """Build a vocabulary of the `size` - 1 most frequent words of a text; of equally frequent ones the first in the
        alphabet.
        """
        if size < 2:
            raise DataError(f"a vocabulary needs 2 words at least, got {size}")
        counted = sorted(Counter(words_of(data)).items(), key=lambda item: (-item[1], item[0]))
        return cls((UNKNOWN, *(word for word, _ in counted[: size - 1])))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: bytes | Sequence[str]) -> np.ndarray:
        """The numbers of a text's words, int64 (n,)."""
        words = words_of(text) if isinstance(text, bytes) else text
        return np.array([self.numbers.get(word, 0) for word in words], np.int64)

    def decode(self, numbers: Iterable[int]) -> str:
        """Words with spaces between them."""
        return " ".join(self.words[number] for number in numbers)
