"""One-shot episodes within an alphabet, drawn from drawings that are named after their characters; no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from diptych_runtime.decoder import SUFFIXES
from diptych_training.errors import DataError

LAYOUT = "<alphabet>/<character>/<id>_<drawer>.png"
_TRIES = 1000


@dataclass(frozen=True)
class DrawingFiles:
    """Drawings as files, with `character`, `alphabet` and `drawer` int64 (n,), numbered in the order of their names."""

    files: tuple[Path, ...]
    character: np.ndarray
    alphabet: np.ndarray
    drawer: np.ndarray


@dataclass(frozen=True)
class Episode:
    """A within-alphabet one-shot test: `queries` and `candidates` (W,) index the same W characters in the same order,
    each side drawn by one hand.
    """

    queries: np.ndarray
    candidates: np.ndarray


def draw_episodes(drawings: Any, count: int, *, ways: int = 20, seed: int = 0) -> list[Episode]:
    """Draw episodes of `ways` trials each, as Lake's runs are made: one alphabet, one hand asks, another answers.

    `drawings` have their `character`, `alphabet` and `drawer` as numbers, int64 (n,).
    """
    rng = np.random.default_rng(seed)
    character, alphabet, drawer = drawings.character, drawings.alphabet, drawings.drawer
    sizes = {a: np.unique(character[alphabet == a]) for a in np.unique(alphabet)}
    large = [a for a, known in sizes.items() if len(known) >= ways]
    if not large:
        raise DataError(f"no alphabet has {ways} characters: the largest has {max(map(len, sizes.values()))}")
    place = {(c, d): i for i, (c, d) in enumerate(zip(character, drawer, strict=True))}
    hands = {c: np.unique(drawer[character == c]) for c in np.unique(character)}

    def draw_episode(alphabet: int) -> Episode | None:
        chosen = rng.choice(sizes[alphabet], ways, replace=False)
        able = reduce(np.intersect1d, [hands[c] for c in chosen])
        if len(able) < 2:
            return None
        asks, answers = rng.choice(able, 2, replace=False)
        return Episode(*(np.array([place[c, hand] for c in chosen]) for hand in (asks, answers)))

    episodes = []
    for alphabet in rng.choice(large, count):
        episode = next((drawn for _ in range(_TRIES) if (drawn := draw_episode(alphabet))), None)
        if episode is None:
            raise DataError(
                f"{_TRIES} times no two hands had drawn the same {ways} characters of one alphabet; ask for fewer ways"
            )
        episodes.append(episode)
    return episodes


def list_drawings(names: Sequence[PurePosixPath], split: str | None = None) -> list[PurePosixPath]:
    """The drawings among some paths that end in the layout, in a fixed order, of one split: the folder above alphabets.

    Without `split` there must be one only.
    """
    drawings = sorted(n for n in names if n.suffix.lower() in SUFFIXES and len(n.parts) >= 3 and "_" in n.stem)
    splits = sorted({split_of(name) for name in drawings})
    if not drawings:
        raise DataError(f"no drawing was found; expected {LAYOUT}")
    if split is not None and split not in splits:
        raise DataError(f"no split is called {split!r}; there are {', '.join(splits)}")
    if split is None and len(splits) > 1:
        raise DataError(f"there are several splits, {', '.join(splits)}: name one with --split")
    return [name for name in drawings if split in (None, split_of(name))]


def read_drawings(folder: Path, split: str | None = None) -> DrawingFiles:
    """Find the drawings below a folder; the drawer is the part of the name after the last underscore."""
    names = list_drawings([PurePosixPath(f.relative_to(folder).as_posix()) for f in folder.rglob("*")], split)
    return DrawingFiles(tuple(folder / name for name in names), *number_drawings(names))


def number_drawings(names: Sequence[PurePosixPath]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The character, alphabet and drawer of each drawing, int64 (n,), numbered in the order of their names."""
    parts = [(str(name.parent), str(name.parent.parent), name.stem.rpartition("_")[2]) for name in names]
    character, alphabet, drawer = (np.unique(part, return_inverse=True)[1] for part in zip(*parts, strict=True))
    return character.astype(np.int64), alphabet.astype(np.int64), drawer.astype(np.int64)


def split_of(name: PurePosixPath) -> str:
    """The folder above the alphabets, or "." where there is none."""
    return name.parts[-4] if len(name.parts) > 3 else "."
