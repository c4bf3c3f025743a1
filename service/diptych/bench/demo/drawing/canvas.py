"""A small painter: antialiased shapes, gradients, fractal noise and light on a float picture."""

import colorsys
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

Point = Sequence[float] | np.ndarray  # x, y
Colour = tuple[float, float, float]
Field = np.ndarray  # float32, the height and width of the whole canvas, with or without three channels
Fill = Colour | Field | Callable[[np.ndarray, np.ndarray], np.ndarray]

OVERSAMPLING = 2


class Canvas:
    """A picture being painted; one unit is the picture's height, (0, 0) its top left, (aspect, 1) its bottom right."""

    def __init__(self, width: int, height: int, rng: np.random.Generator) -> None:
        self.width, self.height, self.rng = width, height, rng
        self.aspect = width / height
        self.pixels = np.ones((height, width, 3), np.float32)
        self.x = np.broadcast_to((np.arange(width, dtype=np.float32) + 0.5) / height, (height, width))
        self.y = np.broadcast_to((np.arange(height, dtype=np.float32)[:, None] + 0.5) / height, (height, width))

    def noise(self, scale: float, octaves: int = 4, *, stretch: float = 1.0) -> Field:
        """Fractal noise (height, width), about 0 +- 1; `scale` is the largest blob's height, `stretch` widens blobs."""
        total, weight = np.zeros((self.height, self.width), np.float32), 1.0
        for octave in range(octaves):
            cell = scale / 2**octave
            rows, columns = int(1 / cell) + 3, int(self.aspect / (cell * stretch)) + 3
            if max(rows, columns) > self.width:
                break
            grid = Image.fromarray(self.rng.standard_normal((rows, columns), np.float32))
            total += weight * np.asarray(grid.resize((self.width, self.height), Image.Resampling.BICUBIC))
            weight *= 0.5
        return total

    def gradient(self, *stops: tuple[float, Colour], along: Field | None = None) -> Field:
        """A colour for every pixel, blended between (position, colour) stops along `along` (default: y)."""
        positions, colours = zip(*stops, strict=True)
        where = self.y[:, :1] if along is None else along  # one column is all of them
        channels = [np.interp(where, positions, channel) for channel in zip(*colours, strict=True)]
        return np.broadcast_to(np.stack(channels, -1).astype(np.float32), (self.height, self.width, 3))

    def wash(self, fill: Fill, opacity: float | Field = 1.0) -> None:
        """Blend a colour or field over the whole canvas; `opacity` may vary over the pixels."""
        opacity = opacity[..., None] if isinstance(opacity, np.ndarray) else opacity
        self.pixels += (self._colour(fill, (0, 0, self.width, self.height)) - self.pixels) * opacity

    def paint(self, points: np.ndarray, fill: Fill, opacity: float = 1.0, *, soft: float = 0.0) -> None:
        """Fill the polygon `points` (n, 2), antialiased, with edges blurred over `soft` units."""
        margin = 3 * soft + 2 / self.height
        lower, upper = (points.min(0) - margin) * self.height, (points.max(0) + margin) * self.height
        left, top = max(0, int(lower[0])), max(0, int(lower[1]))
        right, bottom = min(self.width, int(upper[0]) + 1), min(self.height, int(upper[1]) + 1)
        if right <= left or bottom <= top:
            return
        mask = Image.new("L", ((right - left) * OVERSAMPLING, (bottom - top) * OVERSAMPLING))
        placed = (points * self.height - (left, top)) * OVERSAMPLING
        ImageDraw.Draw(mask).polygon(placed.ravel().tolist(), fill=255)
        mask = mask.reduce(OVERSAMPLING)
        if soft:
            mask = mask.filter(ImageFilter.GaussianBlur(float(soft * self.height)))
        alpha = np.asarray(mask, np.float32)[..., None] * (opacity / 255)
        region = self.pixels[top:bottom, left:right]
        region += (self._colour(fill, (left, top, right, bottom)) - region) * alpha

    def glow(self, x: float, y: float, radius: float, colour: Colour, strength: float = 1.0) -> None:
        """Add light that falls off from (x, y) and never burns out."""
        light = strength * np.exp(-((self.x - x) ** 2 + (self.y - y) ** 2) / radius**2)
        self.pixels += (1 - self.pixels).clip(0) * light[..., None] * np.asarray(colour, np.float32)

    def finish(self, *, grain: float = 0.012, vignette: float = 0.16) -> Image.Image:
        """The picture as 8-bit RGB, with film grain and darkened corners."""
        away = ((self.x / self.aspect - 0.5) ** 2 + (self.y - 0.5) ** 2) * 2
        self.pixels *= (1 - vignette * away**1.5)[..., None]
        self.pixels += grain * self.rng.standard_normal((self.height, self.width, 1), np.float32)
        return Image.fromarray((self.pixels.clip(0, 1) * 255 + 0.5).astype(np.uint8))

    def _colour(self, fill: Fill, box: tuple[int, int, int, int]) -> np.ndarray:
        left, top, right, bottom = box
        if callable(fill):
            return fill(self.x[top:bottom, left:right], self.y[top:bottom, left:right])
        if isinstance(fill, np.ndarray):
            return fill[top:bottom, left:right]
        return np.asarray(fill, np.float32)


def ellipse(x: float, y: float, across: float, down: float, *, turn: float = 0.0, corners: int = 48) -> np.ndarray:
    """Points (corners, 2) of an ellipse with half-axes `across` and `down`, turned by `turn` radians."""
    angle = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    u, v = across * np.cos(angle), down * np.sin(angle)
    return np.stack([x + u * np.cos(turn) - v * np.sin(turn), y + u * np.sin(turn) + v * np.cos(turn)], -1)


def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    """Points (4, 2) of an upright rectangle."""
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)])


def stroke(start: Point, end: Point, thick: float, thin: float | None = None) -> np.ndarray:
    """Points (4, 2) of a straight stroke that is `thick` wide at its start and `thin` (default the same) at its end."""
    a, b = np.asarray(start), np.asarray(end)
    across = np.array([a[1] - b[1], b[0] - a[0]]) / (np.hypot(*(b - a)) + 1e-9) / 2
    thin = thick if thin is None else thin
    return np.array([a + across * thick, b + across * thin, b - across * thin, a - across * thick])


def ridge(rng: np.random.Generator, aspect: float, level: float, height: float, *, rough: float = 0.5) -> np.ndarray:
    """Points of land under a fractal skyline around y = `level`, closed along the bottom of the picture."""
    count = 160
    at = np.linspace(0, 1, count)
    line = np.zeros(count)
    for octave in range(6):
        knots = 2 ** (octave + 1) + 2
        line += rough**octave * np.interp(at, np.linspace(0, 1, knots), rng.uniform(-1, 1, knots))
    line = np.convolve(np.pad(line, 2, "edge"), np.ones(5) / 5, "valid") if rough < 0.55 else line
    return np.concatenate([np.stack([at * aspect, level - height * line], -1), [(aspect, 1.02), (0, 1.02)]])


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """The colour `share` of the way from `a` to `b`."""
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share)


def hsv(hue: float, saturation: float, value: float) -> Colour:
    """A colour from hue (0..1, wraps), saturation and value (0..1, clipped)."""
    return colorsys.hsv_to_rgb(hue % 1, min(max(saturation, 0), 1), min(max(value, 0), 1))


def shaded(
    x: float, y: float, radius: float, colour: Colour, light: tuple[float, float], *, gloss: float = 0.5
) -> Fill:
    """The fill of a ball at (x, y), lit from the direction `light` in the picture plane, with a soft highlight."""

    def fill(at_x: np.ndarray, at_y: np.ndarray) -> np.ndarray:
        u, v = (at_x - x) / radius, (at_y - y) / radius
        depth = np.sqrt((1 - u * u - v * v).clip(0))
        lit = (0.62 * (u * light[0] + v * light[1]) + 0.62 * depth + 0.22).clip(0.12, 1.08)
        spark = np.exp(-((u - 0.42 * light[0]) ** 2 + (v - 0.42 * light[1]) ** 2) / 0.035)
        return lit[..., None] * np.asarray(colour, np.float32) + gloss * spark[..., None]

    return fill
