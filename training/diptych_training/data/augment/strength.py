"""How strongly and how often views are edited."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Strength:
    """How far edits go, and the chance or the weight of each.

    `area` is the smallest share of the photo that a crop keeps, and `reach` scales how far edits go: 1 for those of
    `HARD`. Every other number belongs to an edit: with `most` at 0 its probability, on its own. With `most` above 0 a
    view gets 1 to `most` edits, 1 + 0.4 (`most` - 1) on average, chosen with these numbers as relative weights.
    """

    area: float = 0.2
    reach: float = 0.6
    most: int = 0
    crop: float = 0.7
    flip: float = 0.4
    rotate: float = 0.4
    perspective: float = 0.25
    shrink: float = 0.2
    stretch: float = 0.0
    pad: float = 0.0
    colour: float = 0.6
    grey: float = 0.08
    tint: float = 0.0
    invert: float = 0.0
    posterise: float = 0.0
    solarise: float = 0.0
    shuffle: float = 0.0
    vignette: float = 0.0
    watermark: float = 0.0
    stripes: float = 0.0
    caption: float = 0.0
    overlay: float = 0.35
    screenshot: float = 0.0
    paste: float = 0.0
    collage: float = 0.0
    photograph: float = 0.0
    sharpen: float = 0.0
    pixelate: float = 0.0
    blur: float = 0.2
    motion: float = 0.0
    noise: float = 0.2
    salt: float = 0.0
    jpeg: float = 0.3


HEAVY = Strength()
MILD = Strength(
    area=0.7, crop=0.4, flip=0.0, rotate=0.15, perspective=0.1, shrink=0.05, colour=0.3, grey=0.0, overlay=0.05,
    blur=0.1, noise=0.1, jpeg=0.2,
)  # fmt: skip
SHOT = Strength(
    area=0.4, flip=0.3, perspective=0.3, shrink=0.15, grey=0.02, overlay=0.05, noise=0.15, jpeg=0.2
)  # fmt: skip
HARD = Strength(
    area=0.06, reach=1.0, most=6,
    crop=1.0, flip=0.5, rotate=0.6, perspective=0.4, shrink=0.2, stretch=0.4, pad=0.3,
    colour=0.7, grey=0.2, tint=0.2, invert=0.12, posterise=0.15, solarise=0.1, shuffle=0.15, vignette=0.2,
    watermark=0.35, stripes=0.25, caption=0.7, overlay=0.9, screenshot=0.45, paste=0.5, collage=0.3, photograph=0.35,
    sharpen=0.25, pixelate=0.25, blur=0.4, motion=0.2, noise=0.4, salt=0.15, jpeg=0.7,
)  # fmt: skip
