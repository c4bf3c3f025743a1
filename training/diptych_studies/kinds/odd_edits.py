"""Copies with edits that no repertoire of training or measuring has: weather, lenses, glass, noise and print.

What is fitted to the usual edits has to hold for these too.
"""

from collections.abc import Callable, Mapping

import cv2
import numpy as np

Edit = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def move_pixels(rgb: np.ndarray, x: np.ndarray, y: np.ndarray, border: int = cv2.BORDER_REFLECT) -> np.ndarray:
    """Take each pixel from the place (x, y), float (h, w) each."""
    return cv2.remap(rgb, x.astype(np.float32), y.astype(np.float32), cv2.INTER_LINEAR, borderMode=border)


def list_places(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places x and y of all pixels, float32 (h, w) each."""
    y, x = np.mgrid[: rgb.shape[0], : rgb.shape[1]].astype(np.float32)
    return x, y


def _add_glass(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    x, y = list_places(rgb)
    reach = max(2, min(x.shape) // 120)
    return move_pixels(rgb, x + rng.integers(-reach, reach + 1, x.shape), y + rng.integers(-reach, reach + 1, x.shape))


def _add_waves(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    x, y = list_places(rgb)
    height, width = x.shape
    reach, waves = min(x.shape) * rng.uniform(0.01, 0.03), 2 * np.pi * rng.uniform(1, 3)
    return move_pixels(rgb, x + reach * np.sin(waves * y / height), y + reach * np.sin(waves * x / width))


def _bend_lens(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    x, y = list_places(rgb)
    height, width = x.shape
    across, down = 2 * x / width - 1, 2 * y / height - 1
    bent = 1 + rng.uniform(-0.25, 0.35) * (across**2 + down**2)
    return move_pixels(rgb, (across * bent + 1) * width / 2, (down * bent + 1) * height / 2, border=cv2.BORDER_CONSTANT)


def _swirl_middle(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    x, y = list_places(rgb)
    height, width = x.shape
    across, down = x - width / 2, y - height / 2
    angle = rng.uniform(0.3, 0.7) * np.exp(-4 * np.hypot(across, down) / min(x.shape))
    cos, sin = np.cos(angle), np.sin(angle)
    return move_pixels(rgb, width / 2 + cos * across - sin * down, height / 2 + sin * across + cos * down)


def _add_fog(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width = rgb.shape[:2]
    clouds = cv2.resize(rng.random((5, 5)), (width, height), interpolation=cv2.INTER_CUBIC)
    share = np.clip(0.35 + 0.5 * clouds, 0, 0.85)[..., None]
    return (rgb * (1 - share) + 235 * share).astype(np.uint8)


def _add_rain(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width = rgb.shape[:2]
    share = np.zeros((height, width))
    length, thickness = max(4, int(min(height, width) * 0.06)), max(1, min(height, width) // 300)
    for _ in range(200):
        x, y = int(rng.integers(width)), int(rng.integers(height))
        cv2.line(share, (x, y), (x - length // 4, y + length), float(rng.uniform(0.3, 0.9)), thickness)
    return (rgb * (1 - share[..., None]) + 220 * share[..., None]).astype(np.uint8)


def _cut_tiles(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width = rgb.shape[:2]
    cut, count, gap = rgb.copy(), int(rng.integers(4, 8)), max(2, min(height, width) // 150)
    for place in range(1, count):
        cut[height * place // count - gap : height * place // count + gap] = 255
        cut[:, width * place // count - gap : width * place // count + gap] = 255
    return cut


def _add_noise(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.clip(rgb + rng.normal(0, rng.uniform(25, 55), rgb.shape), 0, 255).astype(np.uint8)


def _add_dots(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    dotted, chance = rgb.copy(), rng.random(rgb.shape[:2])
    dotted[chance < 0.06], dotted[chance > 0.94] = 0, 255
    return dotted


def _print_halftone(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    x, y = list_places(rgb)
    wave = 2 * np.pi / rng.integers(4, 7)
    ink = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY) > (np.sin(x * wave) * np.sin(y * wave) + 1) * 127
    return np.repeat((ink * 255).astype(np.uint8)[..., None], 3, axis=2)


def _solarise(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rgb > rng.integers(110, 160), 255 - rgb, rgb).astype(np.uint8)


def _blur_motion(rgb: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    size = max(5, min(rgb.shape[:2]) // 30)
    line = np.zeros((size, size))
    line[size // 2] = 1
    middle = (size / 2 - 0.5,) * 2
    line = cv2.warpAffine(line, cv2.getRotationMatrix2D(middle, float(rng.uniform(0, 180)), 1), (size, size))
    return cv2.filter2D(rgb, -1, (line / line.sum()).astype(np.float32))


ODD_EDITS: Mapping[str, Edit] = {
    "glass": _add_glass,
    "waves": _add_waves,
    "lens": _bend_lens,
    "swirl": _swirl_middle,
    "fog": _add_fog,
    "rain": _add_rain,
    "tiles": _cut_tiles,
    "noise": _add_noise,
    "dots": _add_dots,
    "halftone": _print_halftone,
    "solarised": _solarise,
    "motion": _blur_motion,
}
