"""Still lifes, flowers and posters. `layout` draws what a series shares, the canvas's own generator what differs."""

import numpy as np

from diptych.bench.demo.drawing.canvas import Canvas, Colour, box, ellipse, hsv, mix, shaded, stroke

PRINTS: list[list[Colour]] = [
    [(0.95, 0.91, 0.82), (0.85, 0.29, 0.20), (0.15, 0.24, 0.36), (0.93, 0.70, 0.25), (0.36, 0.55, 0.55)],
    [(0.93, 0.90, 0.86), (0.12, 0.12, 0.13), (0.80, 0.20, 0.18), (0.72, 0.70, 0.66), (0.95, 0.77, 0.20)],
    [(0.16, 0.20, 0.30), (0.94, 0.82, 0.66), (0.90, 0.45, 0.33), (0.44, 0.62, 0.66), (0.96, 0.92, 0.85)],
    [(0.90, 0.93, 0.90), (0.20, 0.45, 0.40), (0.94, 0.62, 0.50), (0.98, 0.85, 0.55), (0.30, 0.26, 0.38)],
    [(0.97, 0.87, 0.84), (0.55, 0.22, 0.40), (0.93, 0.52, 0.42), (0.25, 0.35, 0.55), (0.98, 0.95, 0.90)],
    [(0.86, 0.84, 0.74), (0.33, 0.38, 0.22), (0.72, 0.46, 0.20), (0.20, 0.22, 0.18), (0.92, 0.78, 0.48)],
]

BLOOMS = [0.0, 0.03, 0.07, 0.11, 0.14, 0.60, 0.66, 0.72, 0.78, 0.84, 0.90, 0.95]  # petals are rarely green


def still_life(canvas: Canvas, layout: np.random.Generator) -> None:
    """Fruit, bottles, bowls and a vase of flowers on a wooden table in window light."""
    hue, edge, from_left = layout.uniform(), layout.uniform(0.56, 0.68), bool(layout.integers(2))
    wall, wood = (
        hsv(hue, layout.uniform(0.1, 0.4), layout.uniform(0.5, 0.8)),
        hsv(layout.uniform(0.05, 0.1), 0.5, layout.uniform(0.35, 0.7)),
    )
    light = (-0.75, -0.66) if from_left else (0.75, -0.66)
    side = canvas.x / canvas.aspect if from_left else 1 - canvas.x / canvas.aspect
    canvas.wash(
        canvas.gradient(
            (0, mix(wall, (1, 0.96, 0.88), 0.35)), (1, mix(wall, (0.05, 0.05, 0.1), 0.5)), along=side + 0.25 * canvas.y
        )
    )
    canvas.pixels *= (1 + 0.035 * canvas.noise(0.3, 6))[..., None]
    slant = layout.uniform(0.25, 0.5) * (1 if from_left else -1)
    for pane in range(4):
        x, y = canvas.aspect * (0.32 if from_left else 0.5) + 0.16 * (pane % 2), 0.08 + 0.2 * (pane // 2)
        pane_points = np.array(
            [(x, y), (x + 0.13, y + 0.13 * slant), (x + 0.13, y + 0.16 + 0.13 * slant), (x, y + 0.16)]
        )
        canvas.paint(pane_points, (1.0, 0.95, 0.82), 0.28, soft=0.012)
    grain = canvas.noise(0.09, 5, stretch=9)
    table = canvas.gradient((edge, mix(wood, (1, 0.95, 0.85), 0.3)), (1, mix(wood, (0, 0, 0), 0.25)))
    canvas.paint(box(-0.1, edge, canvas.aspect + 0.1, 1.1), table * (1 + 0.09 * grain)[..., None])
    canvas.paint(box(-0.1, edge - 0.01, canvas.aspect + 0.1, edge + 0.012), (0, 0, 0), 0.25, soft=0.006)
    if layout.uniform() < 0.4:
        cloth = np.array(
            [
                (canvas.aspect * 0.2, edge + 0.08),
                (canvas.aspect * 0.85, edge + 0.08),
                (canvas.aspect * 0.95, 1.05),
                (canvas.aspect * 0.08, 1.05),
            ]
        )
        weave = 0.06 * np.sign(np.sin(canvas.x * 70) * np.sin(canvas.y * 90))[..., None]
        canvas.paint(
            cloth, np.asarray(mix((0.95, 0.94, 0.9), hsv(hue + 0.5, 0.6, 0.7), 0.3), np.float32) + weave, soft=0.002
        )
    slots = np.linspace(0.16, canvas.aspect - 0.16, int(layout.integers(3, 5)))
    tall = layout.choice(["bottle", "vase", "jug"], len(slots))
    tints = layout.uniform(size=len(slots))
    for x, kind, tint in zip(slots, tall, tints, strict=True):
        if canvas.rng.uniform() < 0.72:
            _vessel(canvas, x + canvas.rng.uniform(-0.04, 0.04), edge + 0.07, str(kind), hsv(tint, 0.45, 0.6), light)
    fruits = layout.uniform(size=3)
    for y in np.sort(canvas.rng.uniform(edge + 0.12, 0.93, int(layout.integers(3, 8)))):
        x, radius = canvas.rng.uniform(0.14, canvas.aspect - 0.14), canvas.rng.uniform(0.055, 0.085)
        _fruit(canvas, x, y, radius, float(fruits[canvas.rng.integers(len(fruits))]), light)


def flowers(canvas: Canvas, layout: np.random.Generator) -> None:
    """Blossoms close up before a blurred garden."""
    hue, green, petals = layout.choice(BLOOMS), layout.uniform(0.2, 0.42), int(layout.choice([5, 6, 8, 12, 16]))
    dark, pale = hsv(green, 0.5, layout.uniform(0.15, 0.4)), hsv(green - 0.06, 0.4, layout.uniform(0.55, 0.85))
    canvas.wash(canvas.gradient((0, pale), (1, dark)))
    canvas.wash(pale, (0.3 * canvas.noise(0.5, 3)).clip(0, 0.6))
    for _ in range(26):
        x, y, radius = canvas.rng.uniform(0, canvas.aspect), canvas.rng.uniform(0, 1), canvas.rng.uniform(0.02, 0.09)
        tone = mix(hsv(hue + canvas.rng.uniform(-0.06, 0.06), 0.5, 0.95), pale, canvas.rng.uniform(0, 0.9))
        canvas.paint(ellipse(x, y, radius, radius), tone, canvas.rng.uniform(0.1, 0.35), soft=0.004)
    for _ in range(60):
        x, lean, tall = (
            canvas.rng.uniform(-0.1, canvas.aspect + 0.1),
            canvas.rng.normal(0, 0.08),
            canvas.rng.uniform(0.15, 0.5),
        )
        tone = hsv(green + canvas.rng.uniform(-0.04, 0.04), 0.55, canvas.rng.uniform(0.2, 0.55))
        canvas.paint(stroke((x, 1.05), (x + lean, 1 - tall), 0.014, 0.002), tone, 0.8)
    count = int(layout.integers(3, 9))
    long = layout.uniform(0.8, 1.0)
    for y in np.sort(canvas.rng.uniform(0.18, 0.72, count)):
        x, size = canvas.rng.uniform(0.12, canvas.aspect - 0.12), (0.06 + 0.13 * y) * (1.3 if count < 5 else 0.95)
        stem = hsv(green, 0.6, 0.35)
        canvas.paint(stroke((x + canvas.rng.normal(0, 0.06), 1.05), (x, y), 0.016, 0.009), stem)
        canvas.paint(ellipse(x + 0.05, y + size * 1.7, 0.07, 0.018, turn=-0.5), mix(stem, pale, 0.2))
        _blossom(canvas, x, y, size, petals, hue + canvas.rng.uniform(-0.03, 0.03), long)


def poster(canvas: Canvas, layout: np.random.Generator) -> None:
    """A screen print: circles, arcs, stripes and triangles in five inks on paper."""
    inks = PRINTS[layout.integers(len(PRINTS))]
    style, cells, rng = layout.choice(["tiles", "suns", "mountains", "orbits"]), int(layout.integers(3, 6)), canvas.rng
    canvas.wash(inks[0])

    def ink() -> Colour:
        return inks[int(rng.integers(1, len(inks)))]

    if style == "tiles":
        size = 1 / cells
        for row in range(cells):
            for column in range(int(np.ceil(canvas.aspect * cells))):
                _tile(canvas, column * size, row * size, size, ink(), ink(), int(rng.integers(6)))
    elif style == "suns":
        x, y = layout.uniform(0.35, 0.65) * canvas.aspect, layout.uniform(0.35, 0.5)
        for ring in range(cells + 2):
            radius = 0.36 * (1 - ring / (cells + 2))
            canvas.paint(ellipse(x, y, radius, radius, corners=96), inks[1 + ring % 4] if ring % 2 else ink())
        for band in range(int(rng.integers(4, 9))):
            top = y + 0.06 + band * 0.075
            canvas.paint(box(0, top, canvas.aspect, top + 0.018 + 0.005 * band), ink())
    elif style == "mountains":
        x = layout.uniform(0.3, 0.7) * canvas.aspect
        canvas.paint(ellipse(x, 0.3, 0.17, 0.17, corners=96), inks[1])
        for layer in range(cells + 1):
            peak, wide = rng.uniform(0.1, canvas.aspect - 0.1), rng.uniform(0.35, 0.6)
            top, tone = 0.28 + 0.11 * layer + rng.uniform(-0.05, 0.05), inks[1 + layer % 4]
            canvas.paint(np.array([(peak - wide, 1.05), (peak, top), (peak + wide, 1.05)]), tone)
            canvas.paint(np.array([(peak, top), (peak + wide, 1.05), (peak + wide * 0.15, 1.05)]), (0, 0, 0), 0.18)
    else:
        for _ in range(cells * 3):
            x, y, radius = rng.uniform(0, canvas.aspect), rng.uniform(0, 1), rng.uniform(0.04, 0.22)
            canvas.paint(ellipse(x, y, radius, radius, corners=72), ink(), 0.88)
            if rng.uniform() < 0.5:
                canvas.paint(ellipse(x, y, radius * 0.6, radius * 0.6, corners=72), inks[0])
        for _ in range(cells):
            start, end = rng.uniform(0, (canvas.aspect, 1), 2), rng.uniform(0, (canvas.aspect, 1), 2)
            canvas.paint(stroke(start, end, rng.uniform(0.006, 0.03)), ink())
    canvas.pixels *= (1 + 0.022 * canvas.noise(0.01, 1) + 0.02 * canvas.noise(0.5, 4))[..., None]
    for edge in (
        box(0, 0, 0.035, 1),
        box(canvas.aspect - 0.035, 0, canvas.aspect, 1),
        box(0, 0, canvas.aspect, 0.035),
        box(0, 0.965, canvas.aspect, 1),
    ):
        canvas.paint(edge, mix(inks[0], (1, 1, 1), 0.5) if sum(inks[0]) > 1.5 else inks[4])


def _tile(canvas: Canvas, x: float, y: float, size: float, ground: Colour, ink: Colour, kind: int) -> None:
    canvas.paint(box(x, y, x + size, y + size), ground)
    if kind == 0:
        canvas.paint(ellipse(x + size / 2, y + size / 2, size * 0.36, size * 0.36), ink)
    elif kind == 1:
        quarter = ellipse(x, y, size, size, corners=64).clip((x, y), (x + size, y + size))
        canvas.paint(quarter, ink)
    elif kind == 2:
        canvas.paint(np.array([(x, y + size), (x + size, y), (x + size, y + size)]), ink)
    elif kind == 3:
        for stripe in range(3):
            canvas.paint(box(x, y + size * (0.12 + 0.3 * stripe), x + size, y + size * (0.27 + 0.3 * stripe)), ink)
    elif kind == 4:
        canvas.paint(
            ellipse(x + size / 2, y + size, size / 2, size / 2, corners=64).clip((x, y), (x + size, y + size)), ink
        )
        canvas.paint(
            ellipse(x + size / 2, y + size / 2, size / 2, size / 2, corners=64).clip((x, y), (x + size, y + size / 2)),
            ink,
        )
    else:
        canvas.paint(ellipse(x + size / 2, y + size / 2, size * 0.46, size * 0.2, turn=np.pi / 4), ink)
        canvas.paint(ellipse(x + size / 2, y + size / 2, size * 0.08, size * 0.08), ground)


def _blossom(canvas: Canvas, x: float, y: float, size: float, petals: int, hue: float, long: float) -> None:
    phase, pale = canvas.rng.uniform(0, 6.3), hsv(hue, 0.25, 1.0)
    canvas.paint(ellipse(x + 0.01, y + 0.02, size, size), (0, 0, 0), 0.22, soft=0.02)
    for ring, reach in ((0, 1.0), (1, 0.74)):
        for petal in range(petals):
            angle = phase + (petal + 0.5 * ring) * 2 * np.pi / petals
            middle = (x + np.cos(angle) * size * 0.52 * reach, y + np.sin(angle) * size * 0.52 * reach)
            wide = size * min(0.34, 2.1 / petals) * (1.15 - 0.2 * ring)
            tone = mix(
                hsv(hue, 0.62, 0.80 + 0.12 * ring),
                pale,
                0.2 + 0.25 * (np.cos(angle + 2.2) > 0) + canvas.rng.uniform(0, 0.15),
            )
            canvas.paint(ellipse(*middle, size * 0.5 * reach * long, wide, turn=angle, corners=28), tone)
            canvas.paint(
                stroke((x, y), middle, size * 0.05, size * 0.01), hsv(hue + 0.03, 0.75, 0.6), 0.45, soft=size * 0.015
            )
    canvas.paint(
        ellipse(x, y, size * 0.23, size * 0.23), shaded(x, y, size * 0.23, (0.93, 0.68, 0.18), (-0.6, -0.7), gloss=0.15)
    )
    for dx, dy in canvas.rng.normal(0, 0.09 * size, (12, 2)):
        canvas.paint(ellipse(x + dx, y + dy, size * 0.025, size * 0.025, corners=10), (0.55, 0.3, 0.08))


def _fruit(canvas: Canvas, x: float, y: float, radius: float, kind: float, light: tuple[float, float]) -> None:
    colour = hsv(0.98 + 0.30 * kind, 0.78, 0.88) if kind < 0.8 else hsv(0.82, 0.5, 0.42)
    canvas.paint(
        ellipse(x - light[0] * radius * 0.7, y + radius * 0.86, radius * 1.25, radius * 0.3),
        (0.05, 0.02, 0.03),
        0.5,
        soft=radius * 0.16,
    )
    if 0.55 < kind < 0.8:
        canvas.paint(
            ellipse(x, y - radius * 0.85, radius * 0.62, radius * 0.75),
            shaded(x, y - radius * 0.7, radius * 1.05, colour, light, gloss=0.1),
        )
    canvas.paint(ellipse(x, y, radius, radius * 0.96), shaded(x, y, radius * 1.03, colour, light, gloss=0.42))
    for dx, dy in canvas.rng.normal(0, radius * 0.4, (14, 2)):
        canvas.paint(
            ellipse(x + dx, y + dy, radius * 0.03, radius * 0.03, corners=8), mix(colour, (1, 0.9, 0.6), 0.5), 0.4
        )
    top = y - radius * (1.55 if 0.55 < kind < 0.8 else 0.9)
    canvas.paint(
        stroke((x, top + radius * 0.1), (x + radius * 0.12, top - radius * 0.28), radius * 0.1, radius * 0.06),
        (0.27, 0.17, 0.08),
    )
    if canvas.rng.uniform() < 0.5:
        canvas.paint(
            ellipse(x + radius * 0.36, top - radius * 0.15, radius * 0.3, radius * 0.11, turn=-0.4), (0.28, 0.45, 0.18)
        )


def _vessel(canvas: Canvas, x: float, foot: float, kind: str, colour: Colour, light: tuple[float, float]) -> None:
    """A turned vessel: the outline is a profile of half-widths over height, shaded as a cylinder."""
    profiles = {
        "bottle": (0.46, [0.062, 0.066, 0.066, 0.064, 0.045, 0.022, 0.020, 0.024]),
        "vase": (0.30, [0.045, 0.075, 0.095, 0.095, 0.075, 0.045, 0.036, 0.05]),
        "jug": (0.25, [0.08, 0.1, 0.105, 0.1, 0.085, 0.07, 0.066, 0.072]),
    }
    tall, profile = profiles[kind]
    tall *= canvas.rng.uniform(0.85, 1.12)
    heights = np.linspace(0, 1, 40)
    half = np.interp(heights, np.linspace(0, 1, len(profile)), profile)
    half = np.convolve(np.pad(half, 3, "edge"), np.ones(7) / 7, "valid")
    y = foot - heights * tall
    outline = np.concatenate([np.stack([x - half, y], -1), np.stack([x + half, y], -1)[::-1]])
    widest = float(half.max())

    def cylinder(at_x: np.ndarray, at_y: np.ndarray) -> np.ndarray:
        local = np.interp((foot - at_y) / tall, heights, half)
        u = ((at_x - x) / local).clip(-1, 1)
        lit = 0.32 + 0.62 * np.sqrt(1 - u * u) + 0.34 * u * light[0]
        spark = np.exp(-((u - 0.5 * np.sign(light[0])) ** 2) / 0.012) * 0.38
        band = 0.12 * (np.abs((foot - at_y) / tall - 0.4) < 0.10)
        return (lit - band)[..., None] * np.asarray(colour, np.float32) + spark[..., None]

    canvas.paint(ellipse(x - light[0] * widest, foot, widest * 1.7, 0.022), (0.04, 0.02, 0.03), 0.5, soft=0.014)
    if kind == "vase":
        hue = canvas.rng.choice(BLOOMS)
        for dx, dy in canvas.rng.uniform((-0.11, 0.06), (0.11, 0.2), (7, 2)):
            canvas.paint(stroke((x, foot - tall), (x + dx, foot - tall - dy), 0.008), (0.24, 0.40, 0.18))
            _blossom(canvas, x + dx, foot - tall - dy, 0.045, 6, hue, 0.95)
    canvas.paint(outline, cylinder)
    canvas.paint(ellipse(x, foot - tall, float(half[-1]), float(half[-1]) * 0.22), mix(colour, (0, 0, 0), 0.6))


SCENES = {"still-life": still_life, "flowers": flowers, "poster": poster}
