"""The scenes of the demonstration collection, painted: flowers, fruit on a table, and screen prints.

`layout` draws what a series of look-alikes shares, the canvas's own generator what differs. One unit is the height of a
picture.
"""

import colorsys
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

Point = Sequence[float] | np.ndarray  # x, y
Points = Sequence[Point] | np.ndarray
Colour = tuple[float, float, float]
Field = np.ndarray  # float32, the height and width of the whole canvas, with or without three channels
Fill = Colour | Field | Callable[[np.ndarray, np.ndarray], np.ndarray]

OVERSAMPLING = 2
BLACK: Colour = (0, 0, 0)


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

    def paint(self, points: Points, fill: Fill, opacity: float = 1.0, *, soft: float = 0.0) -> None:
        """Fill the polygon `points` (n, 2), antialiased, with edges blurred over `soft` units."""
        points = np.asarray(points)
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


def disc(x: float, y: float, radius: float, *, corners: int = 48) -> np.ndarray:
    """Points (corners, 2) of a circle."""
    return ellipse(x, y, radius, radius, corners=corners)


def box(left: float, top: float, right: float, bottom: float) -> np.ndarray:
    """Points (4, 2) of an upright rectangle."""
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)])


def stroke(start: Point, end: Point, thick: float, thin: float | None = None) -> np.ndarray:
    """Points (4, 2) of a straight stroke that is `thick` wide at its start and `thin` (default the same) at its end."""
    a, b = np.asarray(start), np.asarray(end)
    across = np.array([a[1] - b[1], b[0] - a[0]]) / (np.hypot(*(b - a)) + 1e-9) / 2
    thin = thick if thin is None else thin
    return np.array([a + across * thick, b + across * thin, b - across * thin, a - across * thick])


def mix_colours(a: Colour, b: Colour, share: float) -> Colour:
    """Mix two colours: the one `share` of the way from `a` to `b`."""
    return (a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share)


def make_colour(hue: float, saturation: float, value: float) -> Colour:
    """Make a colour from hue (0..1, wraps), saturation and value (0..1, clipped)."""
    return colorsys.hsv_to_rgb(hue % 1, min(max(saturation, 0), 1), min(max(value, 0), 1))


def shade_ball(
    x: float, y: float, radius: float, colour: Colour, light: tuple[float, float], *, gloss: float = 0.5
) -> Fill:
    """Shade a ball at (x, y) with a soft highlight, lit from `light` in the picture plane."""

    def shade_pixels(at_x: np.ndarray, at_y: np.ndarray) -> np.ndarray:
        u, v = (at_x - x) / radius, (at_y - y) / radius
        depth = np.sqrt((1 - u * u - v * v).clip(0))
        lit = (0.62 * (u * light[0] + v * light[1]) + 0.62 * depth + 0.22).clip(0.12, 1.08)
        spark = np.exp(-((u - 0.42 * light[0]) ** 2 + (v - 0.42 * light[1]) ** 2) / 0.035)
        return lit[..., None] * np.asarray(colour, np.float32) + gloss * spark[..., None]

    return shade_pixels


PRINTS: list[list[Colour]] = [
    [(0.95, 0.91, 0.82), (0.85, 0.29, 0.20), (0.15, 0.24, 0.36), (0.93, 0.70, 0.25), (0.36, 0.55, 0.55)],
    [(0.93, 0.90, 0.86), (0.12, 0.12, 0.13), (0.80, 0.20, 0.18), (0.72, 0.70, 0.66), (0.95, 0.77, 0.20)],
    [(0.16, 0.20, 0.30), (0.94, 0.82, 0.66), (0.90, 0.45, 0.33), (0.44, 0.62, 0.66), (0.96, 0.92, 0.85)],
    [(0.90, 0.93, 0.90), (0.20, 0.45, 0.40), (0.94, 0.62, 0.50), (0.98, 0.85, 0.55), (0.30, 0.26, 0.38)],
    [(0.97, 0.87, 0.84), (0.55, 0.22, 0.40), (0.93, 0.52, 0.42), (0.25, 0.35, 0.55), (0.98, 0.95, 0.90)],
    [(0.86, 0.84, 0.74), (0.33, 0.38, 0.22), (0.72, 0.46, 0.20), (0.20, 0.22, 0.18), (0.92, 0.78, 0.48)],
]

BLOOMS = [0.0, 0.03, 0.07, 0.11, 0.14, 0.60, 0.66, 0.72, 0.78, 0.84, 0.90, 0.95]  # petals are rarely green


def draw_still_life(canvas: Canvas, layout: np.random.Generator) -> None:
    """Fruit on a wooden table in window light."""
    paint, rng = canvas.paint, canvas.rng
    hue, edge, from_left = layout.uniform(), layout.uniform(0.56, 0.68), bool(layout.integers(2))
    wall = make_colour(hue, layout.uniform(0.1, 0.4), layout.uniform(0.5, 0.8))
    wood = make_colour(layout.uniform(0.05, 0.1), 0.5, layout.uniform(0.35, 0.7))
    light = (-0.75, -0.66) if from_left else (0.75, -0.66)
    side = canvas.x / canvas.aspect if from_left else 1 - canvas.x / canvas.aspect
    bright, dark = mix_colours(wall, (1, 0.96, 0.88), 0.35), mix_colours(wall, (0.05, 0.05, 0.1), 0.5)
    canvas.wash(canvas.gradient((0, bright), (1, dark), along=side + 0.25 * canvas.y))
    canvas.pixels *= (1 + 0.035 * canvas.noise(0.3, 6))[..., None]
    grain = canvas.noise(0.09, 5, stretch=9)
    table = canvas.gradient((edge, mix_colours(wood, (1, 0.95, 0.85), 0.3)), (1, mix_colours(wood, BLACK, 0.25)))
    paint(box(-0.1, edge, canvas.aspect + 0.1, 1.1), table * (1 + 0.09 * grain)[..., None])
    paint(box(-0.1, edge - 0.01, canvas.aspect + 0.1, edge + 0.012), BLACK, 0.25, soft=0.006)
    fruits = layout.uniform(size=3)
    for y in np.sort(rng.uniform(edge - 0.02, 0.93, int(layout.integers(5, 14)))):
        x, radius = rng.uniform(0.14, canvas.aspect - 0.14), rng.uniform(0.055, 0.105)
        _draw_fruit(canvas, x, y, radius, float(fruits[rng.integers(len(fruits))]), light)


def draw_flowers(canvas: Canvas, layout: np.random.Generator) -> None:
    """Blossoms close up before a blurred garden."""
    paint, rng = canvas.paint, canvas.rng
    hue, green, petals = layout.choice(BLOOMS), layout.uniform(0.2, 0.42), int(layout.choice([5, 6, 8, 12, 16]))
    dark, pale = (
        make_colour(green, 0.5, layout.uniform(0.15, 0.4)),
        make_colour(green - 0.06, 0.4, layout.uniform(0.55, 0.85)),
    )
    canvas.wash(canvas.gradient((0, pale), (1, dark)))
    canvas.wash(pale, (0.3 * canvas.noise(0.5, 3)).clip(0, 0.6))
    for _ in range(26):
        x, y, radius = rng.uniform(0, canvas.aspect), rng.uniform(0, 1), rng.uniform(0.02, 0.09)
        tone = mix_colours(make_colour(hue + rng.uniform(-0.06, 0.06), 0.5, 0.95), pale, rng.uniform(0, 0.9))
        paint(disc(x, y, radius), tone, rng.uniform(0.1, 0.35), soft=0.004)
    for _ in range(60):
        x, lean, tall = rng.uniform(-0.1, canvas.aspect + 0.1), rng.normal(0, 0.08), rng.uniform(0.15, 0.5)
        tone = make_colour(green + rng.uniform(-0.04, 0.04), 0.55, rng.uniform(0.2, 0.55))
        paint(stroke((x, 1.05), (x + lean, 1 - tall), 0.014, 0.002), tone, 0.8)
    count = int(layout.integers(3, 9))
    long = layout.uniform(0.8, 1.0)
    for y in np.sort(rng.uniform(0.18, 0.72, count)):
        x, size = rng.uniform(0.12, canvas.aspect - 0.12), (0.06 + 0.13 * y) * (1.3 if count < 5 else 0.95)
        stem = make_colour(green, 0.6, 0.35)
        paint(stroke((x + rng.normal(0, 0.06), 1.05), (x, y), 0.016, 0.009), stem)
        paint(ellipse(x + 0.05, y + size * 1.7, 0.07, 0.018, turn=-0.5), mix_colours(stem, pale, 0.2))
        _draw_blossom(canvas, x, y, size, petals, hue + rng.uniform(-0.03, 0.03), long)


def draw_poster(canvas: Canvas, layout: np.random.Generator) -> None:
    """A screen print in five inks on paper: rings over bands, mountains, or discs and beams."""
    paint, rng = canvas.paint, canvas.rng
    inks = PRINTS[layout.integers(len(PRINTS))]
    style, parts = layout.choice(["rings", "mountains", "discs"]), int(layout.integers(4, 7))
    canvas.wash(inks[0])

    def pick_ink() -> Colour:
        return inks[int(rng.integers(1, len(inks)))]

    if style == "rings":
        x, y = layout.uniform(0.35, 0.65) * canvas.aspect, layout.uniform(0.35, 0.5)
        for ring in range(parts + 1):
            radius = 0.36 * (1 - ring / (parts + 1))
            paint(disc(x, y, radius, corners=96), inks[1 + ring % 4] if ring % 2 else pick_ink())
        for band in range(int(rng.integers(4, 9))):
            top = y + 0.06 + band * 0.075
            paint(box(0, top, canvas.aspect, top + 0.018 + 0.005 * band), pick_ink())
    elif style == "mountains":
        paint(disc(layout.uniform(0.3, 0.7) * canvas.aspect, 0.3, 0.17, corners=96), inks[1])
        for layer in range(parts):
            peak, wide = rng.uniform(0.1, canvas.aspect - 0.1), rng.uniform(0.35, 0.6)
            top = 0.28 + 0.11 * layer + rng.uniform(-0.05, 0.05)
            paint([(peak - wide, 1.05), (peak, top), (peak + wide, 1.05)], inks[1 + layer % 4])
            paint([(peak, top), (peak + wide, 1.05), (peak + wide * 0.15, 1.05)], BLACK, 0.18)
    else:
        for _ in range(parts * 3):
            x, y, radius = rng.uniform(0, canvas.aspect), rng.uniform(0, 1), rng.uniform(0.04, 0.22)
            paint(disc(x, y, radius, corners=72), pick_ink(), 0.88)
            if rng.uniform() < 0.5:
                paint(disc(x, y, radius * 0.6, corners=72), inks[0])
        for _ in range(parts):
            start, end = rng.uniform(0, (canvas.aspect, 1), 2), rng.uniform(0, (canvas.aspect, 1), 2)
            paint(stroke(start, end, rng.uniform(0.006, 0.03)), pick_ink())
    canvas.pixels *= (1 + 0.022 * canvas.noise(0.01, 1) + 0.02 * canvas.noise(0.5, 4))[..., None]


def _draw_blossom(canvas: Canvas, x: float, y: float, size: float, petals: int, hue: float, long: float) -> None:
    paint, rng = canvas.paint, canvas.rng
    phase, pale = rng.uniform(0, 6.3), make_colour(hue, 0.25, 1.0)
    paint(disc(x + 0.01, y + 0.02, size), BLACK, 0.22, soft=0.02)
    for ring, reach in ((0, 1.0), (1, 0.74)):
        for petal in range(petals):
            angle = phase + (petal + 0.5 * ring) * 2 * np.pi / petals
            middle = (x + np.cos(angle) * size * 0.52 * reach, y + np.sin(angle) * size * 0.52 * reach)
            wide = size * min(0.34, 2.1 / petals) * (1.15 - 0.2 * ring)
            light = 0.2 + 0.25 * (np.cos(angle + 2.2) > 0) + rng.uniform(0, 0.15)
            tone = mix_colours(make_colour(hue, 0.62, 0.80 + 0.12 * ring), pale, light)
            paint(ellipse(*middle, size * 0.5 * reach * long, wide, turn=angle, corners=28), tone)
            paint(
                stroke((x, y), middle, size * 0.05, size * 0.01),
                make_colour(hue + 0.03, 0.75, 0.6),
                0.45,
                soft=size * 0.015,
            )
    heart = size * 0.23
    paint(disc(x, y, heart), shade_ball(x, y, heart, (0.93, 0.68, 0.18), (-0.6, -0.7), gloss=0.15))
    for dx, dy in rng.normal(0, 0.09 * size, (12, 2)):
        paint(disc(x + dx, y + dy, size * 0.025, corners=10), (0.55, 0.3, 0.08))


def _draw_fruit(canvas: Canvas, x: float, y: float, radius: float, kind: float, light: tuple[float, float]) -> None:
    paint, is_pear = canvas.paint, 0.55 < kind < 0.8
    colour = make_colour(0.98 + 0.30 * kind, 0.78, 0.88) if kind < 0.8 else make_colour(0.82, 0.5, 0.42)
    shadow = ellipse(x - light[0] * radius * 0.7, y + radius * 0.86, radius * 1.25, radius * 0.3)
    paint(shadow, (0.05, 0.02, 0.03), 0.5, soft=radius * 0.16)
    if is_pear:
        neck = ellipse(x, y - radius * 0.85, radius * 0.62, radius * 0.75)
        paint(neck, shade_ball(x, y - radius * 0.7, radius * 1.05, colour, light, gloss=0.1))
    paint(ellipse(x, y, radius, radius * 0.96), shade_ball(x, y, radius * 1.03, colour, light, gloss=0.42))
    for dx, dy in canvas.rng.normal(0, radius * 0.4, (14, 2)):
        paint(disc(x + dx, y + dy, radius * 0.03, corners=8), mix_colours(colour, (1, 0.9, 0.6), 0.5), 0.4)
    top = y - radius * (1.55 if is_pear else 0.9)
    stem = stroke((x, top + radius * 0.1), (x + radius * 0.12, top - radius * 0.28), radius * 0.1, radius * 0.06)
    paint(stem, (0.27, 0.17, 0.08))
    if canvas.rng.uniform() < 0.5:
        leaf = ellipse(x + radius * 0.36, top - radius * 0.15, radius * 0.3, radius * 0.11, turn=-0.4)
        paint(leaf, (0.28, 0.45, 0.18))


SCENES = {
    "flowers": draw_flowers,
    "still-life": draw_still_life,
    "poster": draw_poster,
}
