"""Omniglot: drawings of characters, groups of them to train on, within-alphabet one-shot episodes to measure with."""

import io
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Generator, Tensor

from diptych_training.data.archives import find_archive, read_member

# Episodes are drawn where models are measured, without torch; who trains finds them here.
from diptych_training.data.episodes import Episode as Episode
from diptych_training.data.episodes import draw_episodes as draw_episodes
from diptych_training.data.episodes import list_drawings, number_drawings

ARCHIVE = "omniglot"


@dataclass(frozen=True)
class Characters:
    """Drawings as ink: `pixels` (n, S, S) float32 in [0, 1], 1 where there is ink; with each one's `character`,
    `alphabet` and `drawer`, int64 (n,), numbered in the order of their names.
    """

    pixels: Tensor
    character: np.ndarray
    alphabet: np.ndarray
    drawer: np.ndarray


def load_characters(folder: Path, split: str, size: int) -> Characters:
    """Read one split, each drawing squashed to size x size; raise `DataError` where the archive is not as expected."""
    with zipfile.ZipFile(find_archive(folder, ARCHIVE)) as archive:
        names = list_drawings([PurePosixPath(name) for name in archive.namelist()], split)
        files = [read_member(archive, str(name)) for name in names]

    def ink(file: bytes) -> np.ndarray:
        with Image.open(io.BytesIO(file), formats=["PNG"]) as drawing:
            return 255 - np.asarray(drawing.convert("L").resize((size, size), Image.Resampling.BOX))

    with ThreadPoolExecutor(2) as pool:
        pixels = np.stack(list(pool.map(ink, files)))
    return Characters(torch.from_numpy(pixels).float() / 255, *number_drawings(names))


class Groups:
    """Draws training steps: groups of characters of one alphabet, each drawn by two hands.

    Four turns of a character count as four characters, and each drawing is bent a little (rotation, scale, shear,
    shift). With `varied` eight turns and mirror images do, half the groups upright, and drawings have waves and another
    weight of the pen too. A share `composed` has characters made of two of the alphabet's, one laid over the other. An
    alphabet smaller than a group gives some of its characters twice, and two groups may share an alphabet and a turn.
    """

    def __init__(self, characters: Characters, *, varied: bool = False, composed: float = 0.0) -> None:
        self.characters, self.varied, self.composed = characters, varied, composed
        # (characters of an alphabet) -> drawings of each
        self.drawings = [
            [np.flatnonzero(characters.character == c) for c in np.unique(characters.character[where])]
            for where in (characters.alphabet == a for a in np.unique(characters.alphabet))
        ]

    def draw_from(
        self, rng: np.random.Generator, groups: int, size: int
    ) -> tuple[Tensor, Tensor, np.ndarray, np.ndarray]:
        """Two batches of pictures (groups * size, 3, S, S), and for both which character it is, in which turn."""
        inks, characters, turns = [], [], []
        for group, alphabet in enumerate(rng.integers(0, len(self.drawings), groups)):
            ink, character = self._draw_group(rng, self.drawings[alphabet], size, group)
            # Upright they are what is asked for; turned or mirrored they are more characters.
            upright = self.varied and rng.random() < 0.5
            turns.append(0 if upright else int(rng.integers(0, 8 if self.varied else 4)))
            inks.append(_turn_ink(ink, turns[-1]))
            characters.append(character)
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        ink = torch.stack(inks, 1).flatten(0, 2)
        bent = bend_ink(ripple_ink(ink, generator) if self.varied else ink, generator)
        one, other = make_pictures(bent).tensor_split(2)
        return one, other, np.concatenate(characters), np.repeat(np.array(turns), size)

    def _draw_group(
        self, rng: np.random.Generator, known: Sequence[np.ndarray], size: int, group: int
    ) -> tuple[Tensor, np.ndarray]:
        """Ink (2, size, S, S) of characters of one alphabet by two hands each, and which they are."""
        # With none composed nothing is drawn for it, and the same seed gives what it always gave.
        if not self.composed or rng.random() >= self.composed:
            return self._draw_by_two_hands(rng, known, rng.choice(len(known), size, replace=len(known) < size))
        # Few lower parts under many upper ones: rivals share a part, and differ where one has to look.
        few = rng.choice(len(known), min(4, len(known)), replace=False)
        lower, first = self._draw_by_two_hands(rng, known, rng.choice(few, size))
        upper, second = self._draw_by_two_hands(rng, known, rng.integers(0, len(known), size))
        ink = torch.maximum(_place_ink(lower, rng), _place_ink(upper, rng))
        count = len(self.characters.character)
        return ink, count * (1 + count * (1 + group) + first) + second

    def _draw_by_two_hands(
        self, rng: np.random.Generator, known: Sequence[np.ndarray], chosen: np.ndarray
    ) -> tuple[Tensor, np.ndarray]:
        drawings = np.stack([rng.choice(known[character], 2, replace=False) for character in chosen], 1)
        return self.characters.pixels[torch.from_numpy(drawings)], self.characters.character[drawings[0]]


def make_pictures(ink: Tensor) -> Tensor:
    """Make black on white pictures (..., 3, S, S) of ink (..., S, S)."""
    return (1 - ink).unsqueeze(-3).expand(*ink.shape[:-2], 3, *ink.shape[-2:])


def bend_ink(ink: Tensor, generator: Generator) -> Tensor:
    """Ink (n, S, S), each turned by up to 12 degrees, scaled and sheared by up to 15 % and moved by up to a tenth."""

    def within(reach: float) -> Tensor:
        return (torch.rand(len(ink), generator=generator) * 2 - 1) * reach

    angle, shear, wide, high = within(0.21), within(0.15), 1 + within(0.15), 1 + within(0.15)
    cos, sin = angle.cos(), angle.sin()
    rows = torch.stack(
        [cos * wide, (shear - sin) * high, within(0.2), (sin + shear) * wide, cos * high, within(0.2)], -1
    )
    where = F.affine_grid(rows.view(-1, 2, 3), [len(ink), 1, *ink.shape[1:]], align_corners=False)
    return F.grid_sample(ink[:, None], where, align_corners=False)[:, 0]


def ripple_ink(ink: Tensor, generator: Generator) -> Tensor:
    """Ink (n, S, S), each bent by smooth waves of up to a few hundredths of its side, and drawn by another pen."""
    size = ink.shape[-1]
    waves = F.interpolate(torch.randn(len(ink), 2, 4, 4, generator=generator) * 0.05, (size, size), mode="bicubic")
    where = F.affine_grid(torch.eye(2, 3).expand(len(ink), 2, 3), [len(ink), 1, size, size], align_corners=False)
    bent = F.grid_sample(ink[:, None], where + waves.permute(0, 2, 3, 1), align_corners=False)
    # A blurred stroke cut at another height is thicker or thinner; one in two is left as it was.
    soft = F.avg_pool2d(bent, 3, 1, 1)
    cut = torch.rand(len(ink), 1, 1, 1, generator=generator) * 0.4 + 0.15
    redrawn = ((soft - cut) * 6 + 0.5).clamp(0, 1)
    chosen = torch.rand(len(ink), 1, 1, 1, generator=generator) < 0.5
    return torch.where(chosen, redrawn, bent)[:, 0]


def _place_ink(ink: Tensor, rng: np.random.Generator) -> Tensor:
    """Ink (..., S, S), all of it drawn smaller, down to half, at one place."""
    wide, high = 1 / rng.uniform(0.5, 1, 2)
    right, down = rng.uniform(-1, 1, 2) * (wide - 1, high - 1)
    where = torch.tensor([[wide, 0, right], [0, high, down]], dtype=ink.dtype)
    flat = ink.flatten(0, -3)[:, None]
    grid = F.affine_grid(where.expand(len(flat), 2, 3), list(flat.shape), align_corners=False)
    return F.grid_sample(flat, grid, align_corners=False).view(ink.shape)


def _turn_ink(ink: Tensor, turn: int) -> Tensor:
    """Ink (..., S, S) in one of eight positions: four turns, then four turns of its mirror picture."""
    turned = ink.rot90(turn % 4, (-2, -1))
    return turned.flip(-1) if turn >= 4 else turned
