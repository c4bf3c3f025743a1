"""The scenes of the demonstration collection, painted, four outdoors and three indoors.

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


# Sky above, sky at the horizon, light, far land, near land.
DAYS: list[tuple[Colour, Colour, Colour, Colour, Colour]] = [
    ((0.33, 0.58, 0.84), (0.86, 0.92, 0.94), (1.0, 0.97, 0.85), (0.60, 0.72, 0.80), (0.24, 0.40, 0.20)),
    ((0.32, 0.33, 0.58), (0.98, 0.70, 0.48), (1.0, 0.85, 0.55), (0.62, 0.45, 0.55), (0.20, 0.17, 0.26)),
    ((0.55, 0.72, 0.78), (0.97, 0.90, 0.78), (1.0, 0.95, 0.80), (0.65, 0.74, 0.72), (0.42, 0.42, 0.18)),
    ((0.42, 0.48, 0.60), (0.93, 0.80, 0.82), (1.0, 0.90, 0.86), (0.60, 0.58, 0.68), (0.20, 0.27, 0.22)),
    ((0.22, 0.42, 0.62), (0.98, 0.86, 0.62), (1.0, 0.90, 0.60), (0.48, 0.56, 0.64), (0.45, 0.30, 0.14)),
    ((0.62, 0.76, 0.86), (0.95, 0.95, 0.93), (1.0, 1.0, 0.95), (0.62, 0.70, 0.79), (0.90, 0.92, 0.95)),
    ((0.16, 0.44, 0.50), (0.88, 0.90, 0.70), (1.0, 0.95, 0.70), (0.42, 0.62, 0.60), (0.12, 0.30, 0.24)),
]


def draw_landscape(canvas: Canvas, layout: np.random.Generator) -> None:
    """Hills behind hills under a low sun, with trees, houses, sometimes a lake or a balloon."""
    rng = canvas.rng
    top, low, light, far, near = DAYS[layout.integers(len(DAYS))]
    horizon, layers = layout.uniform(0.42, 0.58), int(layout.integers(3, 6))
    _draw_sky(canvas, layout, top, low, light, horizon)
    for _ in range(int(layout.integers(0, 3))):
        x, y = rng.uniform(0.1, canvas.aspect - 0.1), rng.uniform(0.12, 0.35)
        draw_balloon(canvas, x, y, layout.choice([0.0, 0.04, 0.1, 0.58, 0.62]))
    lake = layout.uniform() < 0.35
    pines = layout.uniform() < 0.5 or sum(near) > 2
    orchard, houses = int(layout.integers(6, 26)), int(layout.integers(0, 4))
    foliage = mix_colours(near, make_colour(layout.uniform(0.05, 0.4), 0.55, 0.40), 0.75)
    texture = canvas.noise(0.12, 6, stretch=2.5)
    for layer in range(layers):
        share = (layer + 1) / layers
        if lake and layer == layers - 1:
            draw_water(canvas, horizon + 0.13, mix_colours(top, low, 0.4))
        colour = mix_colours(far, near, share**0.8)
        level = horizon + (0.24 if lake and layer == layers - 1 else 0.0) + 0.42 * (share - 1 / layers) ** 1.25
        land = ridge(rng, canvas.aspect, level, 0.10 * (1 - 0.5 * share), rough=0.62 - 0.22 * share)
        mist = mix_colours(mix_colours(colour, low, 0.45), mix_colours(colour, BLACK, 0.3), share**2)
        ground = canvas.gradient(
            (level - 0.08, colour), (level + 0.02, mix_colours(colour, light, 0.06)), (level + 0.26, mist)
        )
        canvas.paint(land, ground * (1 + 0.16 * share * texture)[..., None])
        if layer >= layers - 2:
            draw_wood(
                canvas, land, orchard, 0.055 + 0.09 * share**3, mix_colours(foliage, colour, 0.55 - 0.5 * share), pines
            )
            for _ in range(houses if layer == layers - 2 else 0):
                draw_house(canvas, land, 0.05, layout.uniform())


def draw_coast(canvas: Canvas, layout: np.random.Generator) -> None:
    """Sailing boats on a sea that glitters under the sun, islands, gulls and perhaps a lighthouse."""
    rng = canvas.rng
    top, low, light, far, near = DAYS[layout.integers(len(DAYS))]
    horizon = layout.uniform(0.4, 0.58)
    sun = _draw_sky(canvas, layout, top, low, light, horizon)
    for share in (0.25, 0.6)[: layout.integers(0, 3)]:
        island = ridge(rng, canvas.aspect, horizon - 0.01, 0.07)
        island[:, 1] = np.minimum(island[:, 1], horizon + 0.004)
        canvas.paint(island, mix_colours(far, near, share), 0.9)
    draw_water(canvas, horizon, mix_colours(top, (0.05, 0.2, 0.3), 0.5), shine=(sun, light))
    if layout.uniform() < 0.35:
        draw_lighthouse(canvas, layout.uniform(0.12, 0.3) * canvas.aspect, horizon + 0.02, near)
    hues = layout.choice([0.0, 0.03, 0.08, 0.12, 0.56, 0.6, 0.64, 0.95], 2)
    for place in np.sort(rng.uniform(0, 1, int(layout.integers(2, 7)))):
        size = 0.05 + 0.20 * place
        draw_boat(canvas, rng.uniform(0.1, canvas.aspect - 0.1), horizon + 0.015 + 0.36 * place, size, hues, light)
    for _ in range(int(rng.integers(0, 7))):
        x, y, size = rng.uniform(0, canvas.aspect), rng.uniform(0.08, horizon - 0.08), rng.uniform(0.008, 0.022)
        for side in (-1, 1):
            canvas.paint(
                stroke((x, y), (x + side * size, y - size * 0.6), 0.004, 0.001), mix_colours(near, BLACK, 0.4), 0.8
            )


def draw_night(canvas: Canvas, layout: np.random.Generator) -> None:
    """Stars and a milky way over pines and mountains, often with a moon."""
    hue, tilt, rng = layout.uniform(0.55, 0.75), layout.uniform(-0.9, 0.9), canvas.rng
    deep = make_colour(hue, 0.8, 0.10)
    low = make_colour(hue + layout.uniform(-0.12, 0.08), 0.6, layout.uniform(0.3, 0.5))
    canvas.wash(canvas.gradient((0, deep), (0.75, low)))
    across = (canvas.y - 0.35) * np.cos(tilt) - (canvas.x - canvas.aspect / 2) * np.sin(tilt)
    cloud = np.exp(-((across / 0.16) ** 2)) * (0.55 + 0.3 * canvas.noise(0.25, 6))
    canvas.wash(make_colour(hue - 0.1, 0.25, 0.9), (0.45 * cloud).clip(0, 0.7))
    draw_stars(canvas, int(layout.integers(250, 700)))
    if layout.uniform() < 0.5:
        x, y = layout.uniform(0.15, 0.85) * canvas.aspect, layout.uniform(0.12, 0.35)
        radius = layout.uniform(0.03, 0.07)
        canvas.glow(x, y, radius * 3.5, (0.8, 0.85, 1.0), 0.35)
        canvas.paint(disc(x, y, radius), canvas.gradient((0, (0.98, 0.96, 0.88)), (1, (0.8, 0.8, 0.8))))
    for share in (0.35, 0.7, 1.0):
        land = ridge(rng, canvas.aspect, 0.66 + 0.22 * share, 0.16 * (1.1 - share), rough=0.65 - 0.25 * share)
        canvas.paint(land, mix_colours(low, (0.01, 0.015, 0.03), 0.35 + 0.6 * share))
        if share > 0.5:
            pines = mix_colours(low, (0.01, 0.02, 0.03), 0.75 + 0.2 * share)
            draw_wood(canvas, land, int(layout.integers(15, 45)), 0.05 + 0.09 * share**2, pines, True)


def draw_town(canvas: Canvas, layout: np.random.Generator) -> None:
    """Houses along a skyline at dusk, windows lit, often mirrored in a river."""
    paint, rng = canvas.paint, canvas.rng
    top, low, light, far, near = DAYS[layout.choice([1, 3, 4, 0, 6])]
    _draw_sky(canvas, layout, mix_colours(top, (0.1, 0.1, 0.25), 0.35), low, light, 0.66)
    river, rows = layout.uniform() < 0.6, int(layout.integers(2, 4))
    base, tall, hue = (0.74 if river else 1.0), layout.uniform(0.18, 0.42), layout.uniform()
    for row in range(rows):
        share = (row + 1) / rows
        x = -0.05
        while x < canvas.aspect:
            width, height = rng.uniform(0.06, 0.16), tall * rng.uniform(0.5, 1.35) * (1.25 - 0.5 * share)
            roof, wall = base - height - (0.0 if river else 0.25 * (1 - share)), mix_colours(far, near, share * 0.75)
            wall = mix_colours(wall, make_colour(hue + rng.uniform(0, 0.18), 0.45, 0.55), 0.35 * share)
            shade = canvas.gradient((0.0, wall), (1.0, mix_colours(wall, BLACK, 0.35)))
            paint(box(x, roof, x + width, base), shade)
            paint(box(x + width * 0.72, roof, x + width, base), mix_colours(wall, BLACK, 0.5), 0.45)
            if rng.uniform() < 0.5:
                ridge_y, eaves = roof - width * 0.45, roof + 0.002
                peak = [(x - 0.005, eaves), (x + width / 2, ridge_y), (x + width + 0.005, eaves)]
                paint(peak, mix_colours(wall, (0.45, 0.12, 0.08), 0.5))
            draw_windows(canvas, x, roof, width, base, share)
            x += width + rng.choice([0.0, 0.0, 0.02, 0.05])
    if river:
        draw_water(canvas, base, mix_colours(top, (0.03, 0.06, 0.14), 0.6), shine=None)
        paint(box(0, base - 0.006, canvas.aspect, base + 0.008), mix_colours(near, BLACK, 0.5))


def _draw_sky(
    canvas: Canvas, layout: np.random.Generator, top: Colour, low: Colour, light: Colour, horizon: float
) -> tuple[float, float]:
    x, y = layout.uniform(0.12, 0.88) * canvas.aspect, horizon - layout.uniform(0.08, 0.34)
    radius, cover = layout.uniform(0.025, 0.065), layout.uniform(-0.5, 0.5)
    canvas.wash(canvas.gradient((0, top), (horizon, low), (1, low)))
    canvas.glow(x, y, 0.5, light, 0.35)
    canvas.glow(x, y, radius * 2.6, light, 0.6)
    canvas.paint(disc(x, y, radius), mix_colours(light, (1, 1, 1), 0.5), soft=0.004)
    cloud = canvas.noise(0.28, 6, stretch=layout.uniform(2.2, 4)) + cover - 1.6 * (canvas.y - 0.2).clip(0)
    canvas.wash(mix_colours(low, (1, 1, 1), 0.6), (0.62 * (cloud - 0.35)).clip(0, 0.8))
    canvas.wash(mix_colours(top, low, 0.45), (0.45 * (cloud - 1.1)).clip(0, 0.4))
    return x, y


def draw_water(
    canvas: Canvas, level: float, deep: Colour, *, shine: tuple[tuple[float, float], Colour] | None = None
) -> None:
    """Mirror the scene above `level` in rippled water below it; `shine` = ((x, y) of the sun, its colour)."""
    row = int(level * canvas.height)
    rows = canvas.height - row
    if rows < 2:
        return
    depth = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    wave = canvas.noise(0.05, 4, stretch=7)[row:]
    mirrored = row - 1 - np.arange(rows)[:, None] * min(1.0, row / rows)
    source = (mirrored + wave * (1 + 7 * depth)).clip(0, row - 1).astype(int)
    columns = (np.arange(canvas.width)[None] + wave * 3 * depth).clip(0, canvas.width - 1).astype(int)
    mirror = canvas.pixels[source, columns]
    share = (0.30 + 0.45 * depth + 0.07 * wave).clip(0, 1)[..., None]
    water = mirror + (np.asarray(deep, np.float32) - mirror) * share
    if shine:
        (x, _), colour = shine
        path = np.exp(-(((canvas.x[row:] - x) / (0.05 + 0.22 * depth)) ** 2)) * (wave > 0.35 + 0.5 * depth)
        water += (1 - water).clip(0) * (0.75 * path)[..., None] * np.asarray(colour, np.float32)
    canvas.pixels[row:] = water


def draw_stars(canvas: Canvas, count: int) -> None:
    """Scatter `count` stars over the upper sky, a few of them with a halo."""
    rng = canvas.rng
    rows = (rng.uniform(0, 0.8, count) * canvas.height).astype(int)
    columns = rng.integers(0, canvas.width, count)
    bright = rng.pareto(2.2, count).clip(0.12, 1.0)[:, None] * (1, 0.98, 0.94)
    canvas.pixels[rows, columns] = np.maximum(canvas.pixels[rows, columns], bright)
    for x, y in rng.uniform(0, (canvas.aspect, 0.6), (6, 2)):
        canvas.glow(x, y, 0.007, (0.9, 0.95, 1.0), 1.0)


def draw_wood(canvas: Canvas, land: np.ndarray, count: int, size: float, colour: Colour, pines: bool) -> None:
    """Trees standing along and below a skyline, the farther ones first."""
    rng = canvas.rng
    feet = rng.uniform(0, canvas.aspect, count)
    below = np.sort(rng.exponential(0.03, count).clip(0, 0.12))
    for x, down in zip(feet, below, strict=True):
        y = float(np.interp(x, land[:-2, 0], land[:-2, 1])) + down + 0.008
        height = size * rng.uniform(0.65, 1.35)
        tone = mix_colours(
            colour, make_colour(rng.uniform(0.1, 0.35), 0.5, 0.4), rng.uniform(0, 0.22) if sum(colour) > 0.3 else 0.0
        )
        (_draw_pine if pines else _draw_tree)(canvas, x, y, height, tone)


def _draw_pine(canvas: Canvas, x: float, y: float, height: float, colour: Colour) -> None:
    for step in range(4):
        wide = height * (0.27 - 0.055 * step)
        foot, tip = y - height * (0.06 + 0.21 * step), y - height * (0.46 + 0.18 * step)
        tone = mix_colours(colour, (1, 1, 0.9), 0.045 * step)
        canvas.paint([(x - wide, foot), (x, tip), (x + wide, foot), (x, foot + 0.03 * height)], tone)
        canvas.paint([(x, tip), (x + wide, foot), (x, foot + 0.03 * height)], mix_colours(tone, BLACK, 0.3), 0.8)


def _draw_tree(canvas: Canvas, x: float, y: float, height: float, colour: Colour) -> None:
    trunk = stroke((x, y), (x, y - height * 0.6), height * 0.09, height * 0.05)
    canvas.paint(trunk, mix_colours(colour, (0.2, 0.12, 0.08), 0.7))
    dark, bright = mix_colours(colour, BLACK, 0.28), mix_colours(colour, (1, 0.97, 0.75), 0.22)
    for tone, lift, count in ((dark, 0.0, 5), (colour, 0.05, 5), (bright, 0.11, 4)):
        for dx, dy in canvas.rng.uniform(-1, 1, (count, 2)):
            radius = height * canvas.rng.uniform(0.12, 0.22)
            at = x + dx * height * 0.21 - lift * height, y - height * (0.66 + lift) + dy * height * 0.17
            canvas.paint(ellipse(*at, radius, radius * 0.85, corners=20), tone)


def draw_house(canvas: Canvas, land: np.ndarray, size: float, hue: float) -> None:
    """A house with windows and a pitched roof, `size` high, somewhere on a skyline."""
    paint, rng = canvas.paint, canvas.rng
    x = rng.uniform(0.1, canvas.aspect - 0.2)
    y = float(np.interp(x, land[:-2, 0], land[:-2, 1])) + 0.06
    wide, tall = size * rng.uniform(1.1, 1.7), size * rng.uniform(0.7, 1.0)
    wall, roof = (
        mix_colours((0.95, 0.92, 0.86), make_colour(hue, 0.3, 0.9), 0.4),
        mix_colours((0.62, 0.25, 0.17), make_colour(hue, 0.5, 0.45), 0.35),
    )
    paint(ellipse(x + wide / 2, y, wide * 0.75, 0.008), BLACK, 0.3, soft=0.004)
    paint(box(x, y - tall, x + wide, y), wall)
    paint(box(x + wide * 0.62, y - tall, x + wide, y), (0.3, 0.28, 0.3), 0.3)
    eaves, top = y - tall, y - tall * 1.7
    paint([(x - 0.01, eaves), (x + wide * 0.16, top), (x + wide * 0.84, top), (x + wide + 0.01, eaves)], roof)
    for column in range(3):
        left = x + wide * (0.14 + 0.27 * column)
        paint(box(left, y - tall * 0.72, left + wide * 0.13, y - tall * 0.4), (0.25, 0.28, 0.34))


def draw_boat(canvas: Canvas, x: float, y: float, size: float, hues: np.ndarray, light: Colour) -> None:
    """A sailing boat `size` high with its waterline at (x, y), and its mirror image."""
    paint, rng = canvas.paint, canvas.rng
    sail = mix_colours(
        make_colour(hues[rng.integers(len(hues))], 0.55, 0.9), (1, 1, 0.97), rng.choice([0.15, 0.9, 0.97])
    )
    lean, mast = rng.uniform(-0.08, 0.08) * size, size * rng.uniform(0.85, 1.15)
    shape = [(-0.40, -0.02), (0.44, -0.02), (0.28, 0.12), (-0.28, 0.12)]
    for flip, opacity, soft in ((-0.55, 0.35, 0.006), (1.0, 1.0, 0.0)):

        def at(u: float, v: float, flip: float = flip) -> tuple[float, float]:
            return x + u * size - lean * min(v, 0) * 8, y + flip * v * size + (0.1 * size if flip < 0 else 0)

        paint([at(0.02, -0.05), at(0.02, -mast / size), at(0.40, -0.08)], sail, opacity, soft=soft)
        jib = [at(-0.02, -0.08), at(-0.01, -0.9 * mast / size), at(-0.33, -0.10)]
        paint(jib, mix_colours(sail, light, 0.4), opacity, soft=soft)
        paint([at(u, v) for u, v in shape], make_colour(hues[0], 0.5, 0.35), opacity, soft=soft)


def draw_lighthouse(canvas: Canvas, x: float, foot: float, rock: Colour) -> None:
    """A banded lighthouse on a rock whose foot is at y = `foot`."""
    paint = canvas.paint
    cliff = ridge(canvas.rng, 0.5, foot - 0.01, 0.02)[:-2]
    cliff[:, 0] += x - 0.25
    cliff = np.concatenate([cliff, [(x + 0.3, foot + 0.04), (x - 0.3, foot + 0.05)]])
    paint(cliff, mix_colours(rock, (0.2, 0.18, 0.16), 0.5))
    for band in range(6):
        upper, lower = foot - 0.05 * (band + 1), foot - 0.05 * band
        wide, thin = 0.030 - 0.0025 * band, 0.030 - 0.0025 * (band + 1)
        tone = (0.94, 0.93, 0.9) if band % 2 else (0.78, 0.22, 0.17)
        paint([(x - wide, lower), (x - thin, upper), (x + thin, upper), (x + wide, lower)], tone)
        paint([(x + wide * 0.2, lower), (x + thin * 0.2, upper), (x + thin, upper), (x + wide, lower)], BLACK, 0.22)
    paint(box(x - 0.012, foot - 0.335, x + 0.012, foot - 0.30), (1.0, 0.93, 0.6))
    paint([(x - 0.018, foot - 0.333), (x, foot - 0.36), (x + 0.018, foot - 0.333)], (0.3, 0.15, 0.14))


def draw_balloon(canvas: Canvas, x: float, y: float, hue: float) -> None:
    """A striped hot-air balloon with its basket, its middle at (x, y)."""
    paint = canvas.paint
    size = canvas.rng.uniform(0.035, 0.085)
    for stripe in range(5):
        wide = size * (1 - stripe * 0.22)
        tone = mix_colours(make_colour(hue + 0.5 * (stripe % 2), 0.6, 0.88), BLACK, 0.05 * stripe)
        paint(ellipse(x, y, wide, size), tone)
    paint(ellipse(x - size * 0.35, y - size * 0.35, size * 0.35, size * 0.3), (1, 1, 1), 0.3, soft=size * 0.15)
    upper, lower, wide, thin = y + size * 0.8, y + size * 1.3, size * 0.55, size * 0.14
    paint([(x - wide, upper), (x + wide, upper), (x + thin, lower), (x - thin, lower)], make_colour(hue, 0.55, 0.6))
    paint(box(x - size * 0.13, y + size * 1.4, x + size * 0.13, y + size * 1.62), (0.36, 0.22, 0.12))


def draw_windows(canvas: Canvas, x: float, roof: float, width: float, base: float, share: float) -> None:
    """Windows over the front of a building, some of them lit; `share` is how near it stands."""
    rng = canvas.rng
    across, storey = max(2, int(width / rng.uniform(0.022, 0.042))), rng.uniform(0.034, 0.052)
    evening = rng.uniform(0.15, 0.6)
    for row in range(int((base - roof - 0.02) / storey)):
        for column in range(across):
            left, upper = x + width * (column + 0.28) / across, roof + 0.018 + storey * row
            lit = rng.uniform() < evening
            tone = mix_colours((1.0, 0.85, 0.5), (1.0, 0.7, 0.35), rng.uniform()) if lit else (0.12, 0.14, 0.2)
            pane = box(left, upper, left + width * 0.45 / across, upper + storey * 0.5)
            canvas.paint(pane, tone, (0.5 + 0.5 * share) * (0.95 if lit else 0.6))


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
    """A screen print: circles, arcs, stripes and triangles in five inks on paper."""
    paint = canvas.paint
    inks = PRINTS[layout.integers(len(PRINTS))]
    style, cells, rng = layout.choice(["tiles", "suns", "mountains", "orbits"]), int(layout.integers(3, 6)), canvas.rng
    canvas.wash(inks[0])

    def pick_ink() -> Colour:
        return inks[int(rng.integers(1, len(inks)))]

    if style == "tiles":
        size = 1 / cells
        for row in range(cells):
            for column in range(int(np.ceil(canvas.aspect * cells))):
                _draw_tile(canvas, column * size, row * size, size, pick_ink(), pick_ink(), int(rng.integers(6)))
    elif style == "suns":
        x, y = layout.uniform(0.35, 0.65) * canvas.aspect, layout.uniform(0.35, 0.5)
        for ring in range(cells + 2):
            radius = 0.36 * (1 - ring / (cells + 2))
            paint(disc(x, y, radius, corners=96), inks[1 + ring % 4] if ring % 2 else pick_ink())
        for band in range(int(rng.integers(4, 9))):
            top = y + 0.06 + band * 0.075
            paint(box(0, top, canvas.aspect, top + 0.018 + 0.005 * band), pick_ink())
    elif style == "mountains":
        x = layout.uniform(0.3, 0.7) * canvas.aspect
        paint(disc(x, 0.3, 0.17, corners=96), inks[1])
        for layer in range(cells + 1):
            peak, wide = rng.uniform(0.1, canvas.aspect - 0.1), rng.uniform(0.35, 0.6)
            top, tone = 0.28 + 0.11 * layer + rng.uniform(-0.05, 0.05), inks[1 + layer % 4]
            paint([(peak - wide, 1.05), (peak, top), (peak + wide, 1.05)], tone)
            paint([(peak, top), (peak + wide, 1.05), (peak + wide * 0.15, 1.05)], BLACK, 0.18)
    else:
        for _ in range(cells * 3):
            x, y, radius = rng.uniform(0, canvas.aspect), rng.uniform(0, 1), rng.uniform(0.04, 0.22)
            paint(disc(x, y, radius, corners=72), pick_ink(), 0.88)
            if rng.uniform() < 0.5:
                paint(disc(x, y, radius * 0.6, corners=72), inks[0])
        for _ in range(cells):
            start, end = rng.uniform(0, (canvas.aspect, 1), 2), rng.uniform(0, (canvas.aspect, 1), 2)
            paint(stroke(start, end, rng.uniform(0.006, 0.03)), pick_ink())
    canvas.pixels *= (1 + 0.022 * canvas.noise(0.01, 1) + 0.02 * canvas.noise(0.5, 4))[..., None]
    right = canvas.aspect
    for edge in ((0, 0, 0.035, 1), (right - 0.035, 0, right, 1), (0, 0, right, 0.035), (0, 0.965, right, 1)):
        paint(box(*edge), mix_colours(inks[0], (1, 1, 1), 0.5) if sum(inks[0]) > 1.5 else inks[4])


def _draw_tile(canvas: Canvas, x: float, y: float, size: float, ground: Colour, ink: Colour, kind: int) -> None:
    paint, middle, end = canvas.paint, (x + size / 2, y + size / 2), (x + size, y + size)
    paint(box(x, y, *end), ground)
    if kind == 0:
        paint(disc(*middle, size * 0.36), ink)
    elif kind == 1:
        paint(disc(x, y, size, corners=64).clip((x, y), end), ink)
    elif kind == 2:
        paint([(x, y + size), (x + size, y), (x + size, y + size)], ink)
    elif kind == 3:
        for stripe in range(3):
            paint(box(x, y + size * (0.12 + 0.3 * stripe), x + size, y + size * (0.27 + 0.3 * stripe)), ink)
    elif kind == 4:
        paint(disc(middle[0], y + size, size / 2, corners=64).clip((x, y), end), ink)
        paint(disc(*middle, size / 2, corners=64).clip((x, y), (x + size, middle[1])), ink)
    else:
        paint(ellipse(*middle, size * 0.46, size * 0.2, turn=np.pi / 4), ink)
        paint(disc(*middle, size * 0.08), ground)


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
    "landscape": draw_landscape,
    "coast": draw_coast,
    "night": draw_night,
    "town": draw_town,
    "still-life": draw_still_life,
    "flowers": draw_flowers,
    "poster": draw_poster,
}
