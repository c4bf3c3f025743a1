"""Scenes under the sky. `layout` draws what a series shares, the canvas's own generator what differs."""

import numpy as np

from diptych.bench.demo.drawing.canvas import Canvas, Colour, box, ellipse, hsv, mix, ridge, stroke
from diptych.bench.demo.drawing.props import balloon, boat, house, lighthouse, stars, water, windows, wood

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


def landscape(canvas: Canvas, layout: np.random.Generator) -> None:
    """Hills behind hills under a low sun, with trees, houses, sometimes a lake or a balloon."""
    top, low, light, far, near = DAYS[layout.integers(len(DAYS))]
    horizon, layers = layout.uniform(0.42, 0.58), int(layout.integers(3, 6))
    _sky(canvas, layout, top, low, light, horizon)
    for _ in range(int(layout.integers(0, 3))):
        balloon(
            canvas,
            canvas.rng.uniform(0.1, canvas.aspect - 0.1),
            canvas.rng.uniform(0.12, 0.35),
            layout.choice([0.0, 0.04, 0.1, 0.58, 0.62]),
        )
    lake = layout.uniform() < 0.35
    pines, orchard, houses = (
        layout.uniform() < 0.5 or sum(near) > 2,
        int(layout.integers(6, 26)),
        int(layout.integers(0, 4)),
    )
    foliage = mix(near, hsv(layout.uniform(0.05, 0.4), 0.55, 0.40), 0.75)
    texture = canvas.noise(0.12, 6, stretch=2.5)
    for layer in range(layers):
        share = (layer + 1) / layers
        if lake and layer == layers - 1:
            water(canvas, horizon + 0.13, mix(top, low, 0.4))
        colour = mix(far, near, share**0.8)
        level = horizon + (0.24 if lake and layer == layers - 1 else 0.0) + 0.42 * (share - 1 / layers) ** 1.25
        land = ridge(canvas.rng, canvas.aspect, level, 0.10 * (1 - 0.5 * share), rough=0.62 - 0.22 * share)
        mist = mix(mix(colour, low, 0.45), mix(colour, (0, 0, 0), 0.3), share**2)
        ground = canvas.gradient((level - 0.08, colour), (level + 0.02, mix(colour, light, 0.06)), (level + 0.26, mist))
        canvas.paint(land, ground * (1 + 0.16 * share * texture)[..., None])
        if layer >= layers - 2:
            wood(canvas, land, orchard, 0.055 + 0.09 * share**3, mix(foliage, colour, 0.55 - 0.5 * share), pines)
            for _ in range(houses if layer == layers - 2 else 0):
                house(canvas, land, 0.05, layout.uniform())


def coast(canvas: Canvas, layout: np.random.Generator) -> None:
    """Sailing boats on a sea that glitters under the sun, islands, gulls and perhaps a lighthouse."""
    top, low, light, far, near = DAYS[layout.integers(len(DAYS))]
    horizon = layout.uniform(0.4, 0.58)
    sun = _sky(canvas, layout, top, low, light, horizon)
    for share in (0.25, 0.6)[: layout.integers(0, 3)]:
        island = ridge(canvas.rng, canvas.aspect, horizon - 0.01, 0.07)
        island[:, 1] = np.minimum(island[:, 1], horizon + 0.004)
        canvas.paint(island, mix(far, near, share), 0.9)
    water(canvas, horizon, mix(top, (0.05, 0.2, 0.3), 0.5), shine=(sun, light))
    if layout.uniform() < 0.35:
        lighthouse(canvas, layout.uniform(0.12, 0.3) * canvas.aspect, horizon + 0.02, near)
    hues = layout.choice([0.0, 0.03, 0.08, 0.12, 0.56, 0.6, 0.64, 0.95], 2)
    for place in np.sort(canvas.rng.uniform(0, 1, int(layout.integers(2, 7)))):
        size = 0.05 + 0.20 * place
        boat(canvas, canvas.rng.uniform(0.1, canvas.aspect - 0.1), horizon + 0.015 + 0.36 * place, size, hues, light)
    for _ in range(int(canvas.rng.integers(0, 7))):
        x, y, size = (
            canvas.rng.uniform(0, canvas.aspect),
            canvas.rng.uniform(0.08, horizon - 0.08),
            canvas.rng.uniform(0.008, 0.022),
        )
        for side in (-1, 1):
            canvas.paint(
                stroke((x, y), (x + side * size, y - size * 0.6), 0.004, 0.001), mix(near, (0, 0, 0), 0.4), 0.8
            )


def night(canvas: Canvas, layout: np.random.Generator) -> None:
    """Stars, a milky way or northern lights over pines, mountains and a lit cabin."""
    hue, aurora = layout.uniform(0.55, 0.75), layout.uniform() < 0.45
    deep, low = hsv(hue, 0.8, 0.10), hsv(hue + layout.uniform(-0.12, 0.08), 0.6, layout.uniform(0.3, 0.5))
    canvas.wash(canvas.gradient((0, deep), (0.75, low)))
    tilt, rng = layout.uniform(-0.9, 0.9), canvas.rng
    across = (canvas.y - 0.35) * np.cos(tilt) - (canvas.x - canvas.aspect / 2) * np.sin(tilt)
    if aurora:
        for band in range(3):
            curtain = 0.30 + 0.08 * band + 0.09 * np.sin(canvas.x * layout.uniform(2, 5) + rng.uniform(0, 6)) - canvas.y
            curtain += 0.02 * canvas.noise(0.2, 3, stretch=0.5)
            light = np.where(curtain > 0, np.exp(-curtain / 0.16), np.exp(curtain / 0.015)) * (
                0.75 + 0.25 * np.sin(canvas.x * 60 + rng.uniform(0, 6))
            )
            canvas.wash(hsv(0.36 + 0.1 * band + layout.uniform(0, 0.08), 0.6, 0.95), (0.5 * light).clip(0, 1))
    else:
        cloud = np.exp(-((across / 0.16) ** 2)) * (0.55 + 0.3 * canvas.noise(0.25, 6))
        canvas.wash(hsv(hue - 0.1, 0.25, 0.9), (0.45 * cloud).clip(0, 0.7))
    stars(canvas, int(layout.integers(250, 700)))
    if layout.uniform() < 0.5:
        x, y, radius = (
            layout.uniform(0.15, 0.85) * canvas.aspect,
            layout.uniform(0.12, 0.35),
            layout.uniform(0.03, 0.07),
        )
        canvas.glow(x, y, radius * 3.5, (0.8, 0.85, 1.0), 0.35)
        canvas.paint(ellipse(x, y, radius, radius), canvas.gradient((0, (0.98, 0.96, 0.88)), (1, (0.8, 0.8, 0.8))))
        for _ in range(5):
            spot = rng.uniform(-0.5, 0.5, 2) * radius
            canvas.paint(
                ellipse(x + spot[0], y + spot[1], radius * 0.2, radius * 0.16), (0.72, 0.72, 0.72), 0.5, soft=0.003
            )
    for share in (0.35, 0.7, 1.0):
        land = ridge(rng, canvas.aspect, 0.66 + 0.22 * share, 0.16 * (1.1 - share), rough=0.65 - 0.25 * share)
        canvas.paint(land, mix(low, (0.01, 0.015, 0.03), 0.35 + 0.6 * share))
        if share > 0.5:
            wood(
                canvas,
                land,
                int(layout.integers(15, 45)),
                0.05 + 0.09 * share**2,
                mix(low, (0.01, 0.02, 0.03), 0.75 + 0.2 * share),
                True,
            )
    if layout.uniform() < 0.6:
        x = rng.uniform(0.25, canvas.aspect - 0.25)
        canvas.glow(x, 0.9, 0.13, (1.0, 0.65, 0.25), 0.5)
        canvas.paint(np.array([(x - 0.07, 0.93), (x, 0.84), (x + 0.07, 0.93)]), (1.0, 0.72, 0.32))
        canvas.paint(np.array([(x - 0.07, 0.93), (x, 0.84), (x - 0.012, 0.93)]), (0.8, 0.42, 0.16))


def town(canvas: Canvas, layout: np.random.Generator) -> None:
    """Houses along a skyline at dusk, windows lit, often mirrored in a river."""
    top, low, light, far, near = DAYS[layout.choice([1, 3, 4, 0, 6])]
    _sky(canvas, layout, mix(top, (0.1, 0.1, 0.25), 0.35), low, light, 0.66)
    river, rows = layout.uniform() < 0.6, int(layout.integers(2, 4))
    base, tall, hue = (0.74 if river else 1.0), layout.uniform(0.18, 0.42), layout.uniform()
    for row in range(rows):
        share = (row + 1) / rows
        x = -0.05
        while x < canvas.aspect:
            width, height = canvas.rng.uniform(0.06, 0.16), tall * canvas.rng.uniform(0.5, 1.35) * (1.25 - 0.5 * share)
            roof, wall = base - height - (0.0 if river else 0.25 * (1 - share)), mix(far, near, share * 0.75)
            wall = mix(wall, hsv(hue + canvas.rng.uniform(0, 0.18), 0.45, 0.55), 0.35 * share)
            shade = canvas.gradient((0.0, wall), (1.0, mix(wall, (0, 0, 0), 0.35)))
            canvas.paint(box(x, roof, x + width, base), shade)
            canvas.paint(box(x + width * 0.72, roof, x + width, base), mix(wall, (0, 0, 0), 0.5), 0.45)
            if canvas.rng.uniform() < 0.5:
                peak = np.array(
                    [(x - 0.005, roof + 0.002), (x + width / 2, roof - width * 0.45), (x + width + 0.005, roof + 0.002)]
                )
                canvas.paint(peak, mix(wall, (0.45, 0.12, 0.08), 0.5))
            windows(canvas, x, roof, width, base, share)
            x += width + canvas.rng.choice([0.0, 0.0, 0.02, 0.05])
    if river:
        water(canvas, base, mix(top, (0.03, 0.06, 0.14), 0.6), shine=None)
        canvas.paint(box(0, base - 0.006, canvas.aspect, base + 0.008), mix(near, (0, 0, 0), 0.5))


def _sky(
    canvas: Canvas, layout: np.random.Generator, top: Colour, low: Colour, light: Colour, horizon: float
) -> tuple[float, float]:
    x, y = layout.uniform(0.12, 0.88) * canvas.aspect, horizon - layout.uniform(0.08, 0.34)
    radius, cover = layout.uniform(0.025, 0.065), layout.uniform(-0.5, 0.5)
    canvas.wash(canvas.gradient((0, top), (horizon, low), (1, low)))
    canvas.glow(x, y, 0.5, light, 0.35)
    canvas.glow(x, y, radius * 2.6, light, 0.6)
    canvas.paint(ellipse(x, y, radius, radius), mix(light, (1, 1, 1), 0.5), soft=0.004)
    cloud = canvas.noise(0.28, 6, stretch=layout.uniform(2.2, 4)) + cover - 1.6 * (canvas.y - 0.2).clip(0)
    canvas.wash(mix(low, (1, 1, 1), 0.6), (0.62 * (cloud - 0.35)).clip(0, 0.8))
    canvas.wash(mix(top, low, 0.45), (0.45 * (cloud - 1.1)).clip(0, 0.4))
    return x, y


SCENES = {"landscape": landscape, "coast": coast, "night": night, "town": town}
