"""Props below the sky of a drawn scene: water, stars, trees, houses, boats, a lighthouse, balloons, lit windows."""

import numpy as np

from diptych.bench.demo.drawing.canvas import Canvas, Colour, box, ellipse, hsv, mix, ridge, stroke


def water(
    canvas: Canvas, level: float, deep: Colour, *, shine: tuple[tuple[float, float], Colour] | None = None
) -> None:
    """Mirror the scene above `level` in rippled water below it; `shine` = ((x, y) of the sun, its colour)."""
    row = int(level * canvas.height)
    rows = canvas.height - row
    if rows < 2:
        return
    depth = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    wave = canvas.noise(0.05, 4, stretch=7)[row:]
    source = (
        (row - 1 - np.arange(rows)[:, None] * min(1.0, row / rows) + wave * (1 + 7 * depth))
        .clip(0, row - 1)
        .astype(int)
    )
    columns = (np.arange(canvas.width)[None] + wave * 3 * depth).clip(0, canvas.width - 1).astype(int)
    mirror = canvas.pixels[source, columns]
    share = (0.30 + 0.45 * depth + 0.07 * wave).clip(0, 1)[..., None]
    water = mirror + (np.asarray(deep, np.float32) - mirror) * share
    if shine:
        (x, _), colour = shine
        path = np.exp(-(((canvas.x[row:] - x) / (0.05 + 0.22 * depth)) ** 2)) * (wave > 0.35 + 0.5 * depth)
        water += (1 - water).clip(0) * (0.75 * path)[..., None] * np.asarray(colour, np.float32)
    canvas.pixels[row:] = water


def stars(canvas: Canvas, count: int) -> None:
    """Scatter `count` stars over the upper sky, a few of them with a halo."""
    rows = (canvas.rng.uniform(0, 0.8, count) * canvas.height).astype(int)
    columns = canvas.rng.integers(0, canvas.width, count)
    bright = canvas.rng.pareto(2.2, count).clip(0.12, 1.0)[:, None] * (1, 0.98, 0.94)
    canvas.pixels[rows, columns] = np.maximum(canvas.pixels[rows, columns], bright)
    for x, y in canvas.rng.uniform(0, (canvas.aspect, 0.6), (6, 2)):
        canvas.glow(x, y, 0.007, (0.9, 0.95, 1.0), 1.0)


def wood(canvas: Canvas, land: np.ndarray, count: int, size: float, colour: Colour, pines: bool) -> None:
    """Trees standing along and below a skyline, the farther ones first."""
    feet = canvas.rng.uniform(0, canvas.aspect, count)
    below = np.sort(canvas.rng.exponential(0.03, count).clip(0, 0.12))
    for x, down in zip(feet, below, strict=True):
        y = float(np.interp(x, land[:-2, 0], land[:-2, 1])) + down + 0.008
        height = size * canvas.rng.uniform(0.65, 1.35)
        tone = mix(
            colour,
            hsv(canvas.rng.uniform(0.1, 0.35), 0.5, 0.4),
            canvas.rng.uniform(0, 0.22) if sum(colour) > 0.3 else 0.0,
        )
        (_pine if pines else _tree)(canvas, x, y, height, tone)


def _pine(canvas: Canvas, x: float, y: float, height: float, colour: Colour) -> None:
    for step in range(4):
        wide, foot, tip = (
            height * (0.27 - 0.055 * step),
            y - height * (0.06 + 0.21 * step),
            y - height * (0.46 + 0.18 * step),
        )
        tone = mix(colour, (1, 1, 0.9), 0.045 * step)
        canvas.paint(np.array([(x - wide, foot), (x, tip), (x + wide, foot), (x, foot + 0.03 * height)]), tone)
        canvas.paint(np.array([(x, tip), (x + wide, foot), (x, foot + 0.03 * height)]), mix(tone, (0, 0, 0), 0.3), 0.8)


def _tree(canvas: Canvas, x: float, y: float, height: float, colour: Colour) -> None:
    canvas.paint(
        stroke((x, y), (x, y - height * 0.6), height * 0.09, height * 0.05), mix(colour, (0.2, 0.12, 0.08), 0.7)
    )
    for tone, lift, count in (
        (mix(colour, (0, 0, 0), 0.28), 0.0, 5),
        (colour, 0.05, 5),
        (mix(colour, (1, 0.97, 0.75), 0.22), 0.11, 4),
    ):
        for dx, dy in canvas.rng.uniform(-1, 1, (count, 2)):
            radius = height * canvas.rng.uniform(0.12, 0.22)
            canvas.paint(
                ellipse(
                    x + dx * height * 0.21 - lift * height,
                    y - height * (0.66 + lift) + dy * height * 0.17,
                    radius,
                    radius * 0.85,
                    corners=20,
                ),
                tone,
            )


def house(canvas: Canvas, land: np.ndarray, size: float, hue: float) -> None:
    """A house with windows and a pitched roof, `size` high, somewhere on a skyline."""
    x = canvas.rng.uniform(0.1, canvas.aspect - 0.2)
    y = float(np.interp(x, land[:-2, 0], land[:-2, 1])) + 0.06
    wide, tall = size * canvas.rng.uniform(1.1, 1.7), size * canvas.rng.uniform(0.7, 1.0)
    wall, roof = mix((0.95, 0.92, 0.86), hsv(hue, 0.3, 0.9), 0.4), mix((0.62, 0.25, 0.17), hsv(hue, 0.5, 0.45), 0.35)
    canvas.paint(ellipse(x + wide / 2, y, wide * 0.75, 0.008), (0, 0, 0), 0.3, soft=0.004)
    canvas.paint(box(x, y - tall, x + wide, y), wall)
    canvas.paint(box(x + wide * 0.62, y - tall, x + wide, y), (0.3, 0.28, 0.3), 0.3)
    canvas.paint(
        np.array(
            [
                (x - 0.01, y - tall),
                (x + wide * 0.16, y - tall * 1.7),
                (x + wide * 0.84, y - tall * 1.7),
                (x + wide + 0.01, y - tall),
            ]
        ),
        roof,
    )
    for column in range(3):
        left = x + wide * (0.14 + 0.27 * column)
        canvas.paint(box(left, y - tall * 0.72, left + wide * 0.13, y - tall * 0.4), (0.25, 0.28, 0.34))


def boat(canvas: Canvas, x: float, y: float, size: float, hues: np.ndarray, light: Colour) -> None:
    """A sailing boat `size` high with its waterline at (x, y), and its mirror image."""
    sail = mix(hsv(hues[canvas.rng.integers(len(hues))], 0.55, 0.9), (1, 1, 0.97), canvas.rng.choice([0.15, 0.9, 0.97]))
    lean, mast = canvas.rng.uniform(-0.08, 0.08) * size, size * canvas.rng.uniform(0.85, 1.15)
    shape = [(-0.40, -0.02), (0.44, -0.02), (0.28, 0.12), (-0.28, 0.12)]
    for flip, opacity, soft in ((-0.55, 0.35, 0.006), (1.0, 1.0, 0.0)):

        def at(u: float, v: float, flip: float = flip) -> tuple[float, float]:
            return x + u * size - lean * min(v, 0) * 8, y + flip * v * size + (0.1 * size if flip < 0 else 0)

        canvas.paint(np.array([at(0.02, -0.05), at(0.02, -mast / size), at(0.40, -0.08)]), sail, opacity, soft=soft)
        canvas.paint(
            np.array([at(-0.02, -0.08), at(-0.01, -0.9 * mast / size), at(-0.33, -0.10)]),
            mix(sail, light, 0.4),
            opacity,
            soft=soft,
        )
        canvas.paint(np.array([at(u, v) for u, v in shape]), hsv(hues[0], 0.5, 0.35), opacity, soft=soft)


def lighthouse(canvas: Canvas, x: float, foot: float, rock: Colour) -> None:
    """A banded lighthouse on a rock whose foot is at y = `foot`."""
    cliff = ridge(canvas.rng, 0.5, foot - 0.01, 0.02)[:-2]
    cliff[:, 0] += x - 0.25
    cliff = np.concatenate([cliff, [(x + 0.3, foot + 0.04), (x - 0.3, foot + 0.05)]])
    canvas.paint(cliff, mix(rock, (0.2, 0.18, 0.16), 0.5))
    for band in range(6):
        upper, lower = foot - 0.05 * (band + 1), foot - 0.05 * band
        wide, thin = 0.030 - 0.0025 * band, 0.030 - 0.0025 * (band + 1)
        tone = (0.94, 0.93, 0.9) if band % 2 else (0.78, 0.22, 0.17)
        canvas.paint(np.array([(x - wide, lower), (x - thin, upper), (x + thin, upper), (x + wide, lower)]), tone)
        canvas.paint(
            np.array([(x + wide * 0.2, lower), (x + thin * 0.2, upper), (x + thin, upper), (x + wide, lower)]),
            (0, 0, 0),
            0.22,
        )
    canvas.paint(box(x - 0.012, foot - 0.335, x + 0.012, foot - 0.30), (1.0, 0.93, 0.6))
    canvas.paint(np.array([(x - 0.018, foot - 0.333), (x, foot - 0.36), (x + 0.018, foot - 0.333)]), (0.3, 0.15, 0.14))


def balloon(canvas: Canvas, x: float, y: float, hue: float) -> None:
    """A striped hot-air balloon with its basket, its middle at (x, y)."""
    size = canvas.rng.uniform(0.035, 0.085)
    for stripe in range(5):
        wide = size * (1 - stripe * 0.22)
        tone = mix(hsv(hue + 0.5 * (stripe % 2), 0.6, 0.88), (0, 0, 0), 0.05 * stripe)
        canvas.paint(ellipse(x, y, wide, size), tone)
    canvas.paint(ellipse(x - size * 0.35, y - size * 0.35, size * 0.35, size * 0.3), (1, 1, 1), 0.3, soft=size * 0.15)
    canvas.paint(
        np.array(
            [
                (x - size * 0.55, y + size * 0.8),
                (x + size * 0.55, y + size * 0.8),
                (x + size * 0.14, y + size * 1.3),
                (x - size * 0.14, y + size * 1.3),
            ]
        ),
        hsv(hue, 0.55, 0.6),
    )
    canvas.paint(box(x - size * 0.13, y + size * 1.4, x + size * 0.13, y + size * 1.62), (0.36, 0.22, 0.12))


def windows(canvas: Canvas, x: float, roof: float, width: float, base: float, share: float) -> None:
    """Windows over the front of a building, some of them lit; `share` is how near it stands."""
    across, storey = max(2, int(width / canvas.rng.uniform(0.022, 0.042))), canvas.rng.uniform(0.034, 0.052)
    evening = canvas.rng.uniform(0.15, 0.6)
    for row in range(int((base - roof - 0.02) / storey)):
        for column in range(across):
            left, upper = x + width * (column + 0.28) / across, roof + 0.018 + storey * row
            lit = canvas.rng.uniform() < evening
            tone = mix((1.0, 0.85, 0.5), (1.0, 0.7, 0.35), canvas.rng.uniform()) if lit else (0.12, 0.14, 0.2)
            canvas.paint(
                box(left, upper, left + width * 0.45 / across, upper + storey * 0.5),
                tone,
                (0.5 + 0.5 * share) * (0.95 if lit else 0.6),
            )
