"""Pictures without things: smooth gradients and noise."""

import math

import numpy as np
from PIL import Image

from diptych_training.data.documents.sheet import Sheet, hsv


def draw_gradient(sheet: Sheet) -> None:
    """A gradient between two or three colours near the family's own, along a line or around a point."""
    sheet.open(sheet.uniform(0.6, 1.7), (0, 0, 0))
    round_, colours, angle = sheet.chance(0.35), sheet.count(2, 3), sheet.uniform(0, 2 * math.pi)
    stops = []
    for _ in range(colours):
        hue, strong, value, rng = sheet.uniform(0, 1), sheet.uniform(0, 0.9), sheet.uniform(0.1, 1), sheet.item()
        drift = rng.normal(0, 0.2, 3).tolist()
        stops.append(hsv(hue + drift[0], strong + drift[1], value + drift[2]))
    rng = sheet.item()
    angle += float(rng.uniform(0, 2 * math.pi))
    x, y = (np.linspace(-0.5, 0.5, side, dtype=np.float32) for side in sheet.image.size)
    if round_:
        a, b = rng.uniform(-0.3, 0.3, 2).tolist()
        share = np.hypot(x[None, :] - a, y[:, None] - b) / 0.8
    else:
        share = 0.5 + 0.7 * (x[None, :] * math.cos(angle) + y[:, None] * math.sin(angle))
    levels = np.linspace(0, 1, colours)
    table = np.stack([np.interp(np.linspace(0, 1, 1024), levels, channel) for channel in zip(*stops, strict=True)], -1)
    sheet.show(Image.fromarray(table.astype(np.uint8)[(share.clip(0, 1) * 1023).astype(np.int16)]))


def draw_noise(sheet: Sheet) -> None:
    """A texture between two colours of the family: grain, clouds, blots, stripes or mosaic."""
    width, height = sheet.open(sheet.uniform(0.7, 1.4), (0, 0, 0))
    kind, cells, rng = sheet.count(0, 5), sheet.count(4, 40), sheet.item()
    one, other = (np.array(sheet.theme().accents[i], np.float32) for i in range(2))
    strength = sheet.uniform(0.5, 1)
    match kind:
        case 0:
            share = _cloud(rng, width // 4, width, height)
        case 1:
            share = sum(_cloud(rng, cells * 2**i, width, height) / 2**i for i in range(3)) / 1.75
        case 2:
            share = (_cloud(rng, cells, width, height) > 0.5).astype(np.float32)
        case 3:
            share = np.repeat(_cloud(rng, 2 * cells, width, 1), height, 0)
        case 4:
            share = np.repeat(_cloud(rng, cells, 1, height), width, 1)
        case _:
            mosaic = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
            share = np.asarray(mosaic.resize((width, height), Image.Resampling.NEAREST))
    share = 0.5 + strength * (np.asarray(share, np.float32) - 0.5)
    table = np.linspace(one, other, 256).astype(np.uint8)
    sheet.show(Image.fromarray(table[(share.clip(0, 1) * 255).astype(np.uint8)]))


def _cloud(rng: np.random.Generator, cells: int, width: int, height: int) -> np.ndarray:
    """Return random values on a coarse grid drawn large, float32 (height, width)."""
    coarse = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
    return np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
