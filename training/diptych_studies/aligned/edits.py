"""Edits of one of two pictures that are laid over each other already: what no homography undoes, weather, print.

No repertoire of training or measuring has them; of `kinds.odd_edits` they teach all but halftone, solarised and motion,
drawn by other hands. Their strengths are drawn, and most are weak.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from diptych_studies.kinds.odd_edits import Edit, list_places, move_pixels


def edit_one_side(pair: np.ndarray, edits: Sequence[Edit], rng: np.random.Generator) -> np.ndarray:
    """A pair uint8 (h, w, 7) with one of its pictures edited in one of these ways."""
    side = slice(0, 3) if rng.random() < 0.5 else slice(3, 6)
    edited, edit = np.array(pair), edits[int(rng.integers(len(edits)))]
    edited[..., side] = edit(np.ascontiguousarray(pair[..., side]), rng)
    return edited


def _shift_pixels(rgb: np.ndarray, across: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Take each pixel from a place so many pixels further, float (h, w) each."""
    x, y = list_places(rgb)
    return move_pixels(rgb, x + across, y + down, cv2.BORDER_REPLICATE)


def _draw_clouds(rgb: np.ndarray, cells: int, rng: np.random.Generator) -> np.ndarray:
    """Smooth normal noise float32 (h, w), of so many cells each way."""
    return cv2.resize(
        rng.normal(size=(cells, cells)).astype(np.float32), rgb.shape[1::-1], interpolation=cv2.INTER_CUBIC
    )


def _jitter(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    reach, cells = rng.uniform(0, 0.01) * min(rgb.shape[:2]), int(rng.integers(2, 6))
    return _shift_pixels(rgb, *(reach * _draw_clouds(rgb, cells, rng) for _ in range(2)))


def _make_waves(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    (x, y), (height, width) = list_places(rgb), rgb.shape[:2]
    reach, (first, second) = min(height, width) * rng.uniform(0.004, 0.025), 2 * np.pi * rng.uniform(0.7, 3.5, 2)
    begin, other = rng.uniform(0, 2 * np.pi, 2)
    return _shift_pixels(rgb, reach * np.sin(first * y / height + begin), reach * np.sin(second * x / width + other))


def _swirl(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    (x, y), (height, width) = list_places(rgb), rgb.shape[:2]
    across, down = x - width * rng.uniform(0.3, 0.7), y - height * rng.uniform(0.3, 0.7)
    radius = min(height, width) * rng.uniform(0.2, 0.5)
    angle = rng.uniform(-0.5, 0.5) * np.exp(-(across**2 + down**2) / radius**2)
    cos, sin = np.cos(angle), np.sin(angle)
    return _shift_pixels(rgb, cos * across - sin * down - across, sin * across + cos * down - down)


def _see_through_glass(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    reach = max(1, int(min(rgb.shape[:2]) * rng.uniform(0.004, 0.014)))
    return _shift_pixels(rgb, *rng.integers(-reach, reach + 1, (2, *rgb.shape[:2])))


def _bend_lens(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    (x, y), (height, width) = list_places(rgb), rgb.shape[:2]
    across, down = 2 * x / width - 1, 2 * y / height - 1
    bent = rng.uniform(-0.1, 0.1) * (across**2 + down**2 - 0.7)
    return _shift_pixels(rgb, bent * across * width / 2, bent * down * height / 2)


def _add_haze(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    clouds = np.abs(_draw_clouds(rgb, int(rng.integers(2, 7)), rng)).clip(0, 1)[..., None]
    share = np.clip(rng.uniform(0, 0.6) + rng.uniform(0.1, 0.6) * clouds, 0, 0.85)
    return (rgb * (1 - share) + rng.uniform(150, 255) * share).astype(np.uint8)


def _add_streaks(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width = rgb.shape[:2]
    share, angle, length = np.zeros((height, width), np.float32), rng.uniform(-0.6, 0.6), rng.uniform(0.02, 0.1)
    step = min(height, width) * length * np.array([np.sin(angle), np.cos(angle)])
    for _ in range(int(rng.integers(30, 260))):
        begin = rng.integers([width, height])
        end = (begin + step).astype(int)
        cv2.line(share, begin.tolist(), end.tolist(), float(rng.uniform(0.2, 0.9)), int(rng.integers(1, 3)))
    return (rgb * (1 - share[..., None]) + rng.uniform(120, 255) * share[..., None]).astype(np.uint8)


def _cut_by_lines(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    cut, (rows, columns) = rgb.copy(), rng.integers(1, 10, 2).tolist()
    gap = max(1, int(min(rgb.shape[:2]) * rng.uniform(0.004, 0.02)))
    colour = rng.integers(0, 256, 3) if rng.random() < 0.4 else np.full(3, rng.choice([0, 255]))
    for lines, strips in ((rows, cut), (columns, cut.swapaxes(0, 1))):
        for place in range(1, lines):
            middle = len(strips) * place // lines
            strips[max(0, middle - gap) : middle + gap] = colour
    return cut


def _add_noise(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    channels = 3 if rng.random() < 0.6 else 1
    return np.clip(rgb + rng.normal(0, rng.uniform(8, 60), (*rgb.shape[:2], channels)), 0, 255).astype(np.uint8)


def _add_salt(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    salted, chance, share = rgb.copy(), rng.random(rgb.shape[:2]), rng.uniform(0.01, 0.09)
    salted[chance < share], salted[chance > 1 - share] = 0, 255
    return salted


def _take_levels(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    levels = int(rng.integers(2, 6))
    return (rgb.astype(int) * levels // 256 * 255 // (levels - 1)).astype(np.uint8)


def _raise_contrast(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip((rgb - rng.uniform(80, 170)) * rng.uniform(1.5, 3.5) + 128, 0, 255).astype(np.uint8)


EDITS: tuple[Edit, ...] = (
    _jitter, _make_waves, _swirl, _see_through_glass, _bend_lens, _add_haze, _add_streaks, _cut_by_lines, _add_noise,
    _add_salt, _take_levels, _raise_contrast,
)  # fmt: skip
