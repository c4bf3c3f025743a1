"""Overlays of training as RGBA pictures: drawn letters, stickers and bars, and emoji read from an archive."""

import io
import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from diptych_training.errors import DataError


def draw_sprites(count: int, seed: int, size: int = 64) -> Tensor:
    """Draw the overlays of training: uint8 (count, 4, size, size) RGBA; letters, stickers with faces, frames and
    bars.
    """
    return _drawn(count, seed, size).clone()


@lru_cache(maxsize=4)
def _drawn(count: int, seed: int, size: int) -> Tensor:
    """The overlays of a seed, which every stage of a run asks for, and every validation."""
    rng = np.random.default_rng(seed)
    return torch.stack([torch.from_numpy(_sprite(rng, size)).permute(2, 0, 1) for _ in range(count)])


def load_emoji(path: Path, size: int) -> Tensor:
    """Read the emoji of an archive, its members `emoji/*.png`, in the order of their names: uint8 (n, 4, size, size).

    Raises `DataError` where the archive is missing or has no such member.
    """
    if not Path(path).is_file():
        raise DataError(
            f"an archive of emoji is expected at {path}, which is no file; docs/data.md says where it is from"
        )
    with zipfile.ZipFile(path) as archive:
        names = sorted(n for n in archive.namelist() if n.startswith("emoji/") and n.endswith(".png"))
        if not names:
            raise DataError(f"members named emoji/*.png are expected in {path}, which has none; name another archive")
        pictures = [Image.open(io.BytesIO(archive.read(name))).convert("RGBA").resize((size, size)) for name in names]
    return torch.stack([torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1) for picture in pictures])


def _sprite(rng: np.random.Generator, size: int) -> np.ndarray:
    picture = Image.new("RGBA", (size, size))
    draw = ImageDraw.Draw(picture)
    colour, second = (tuple(int(c) for c in rng.integers(0, 256, 3)) for _ in range(2))
    ink = [(255, 255, 255), (0, 0, 0), colour][rng.integers(3)]
    match rng.integers(5):
        case 0 | 1:
            font = ImageFont.load_default(float(rng.integers(10, 30)))
            letters = "".join(chr(c) for c in rng.choice([*range(48, 58), *range(65, 91), *range(97, 123)], 12))
            for line in range(rng.integers(1, 4)):
                draw.text((2, 2 + line * 20), letters[line * 4 : line * 4 + 8], font=font, fill=ink)
        case 2:
            draw.ellipse((2, 2, size - 3, size - 3), fill=colour, outline=second, width=2)
            for eye in (0.33, 0.66):
                draw.ellipse((size * eye - 5, 18, size * eye + 5, 30), fill=second)
            draw.arc((16, 20, size - 16, size - 12), 20, 160, fill=second, width=4)
        case 3:
            corners = [tuple(float(v) for v in point) for point in rng.uniform(0, size, (int(rng.integers(3, 8)), 2))]
            draw.polygon(corners, fill=colour, outline=second)
        case _:
            height = int(rng.integers(size // 6, size))
            draw.rectangle((0, 0, size, height), fill=colour)
            draw.text((4, height / 3), "".join(chr(c) for c in rng.integers(65, 91, 6)), fill=ink)
    return np.asarray(picture).copy()
