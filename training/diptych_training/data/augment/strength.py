"""The strength of edits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Strength:
    """The strength of edits, and the frequency of each.

    `area` is the smallest share of the photo that a crop keeps. With `most` at 0 every other number is the probability
    of an edit, on its own, and only the first eleven edits exist. With `most` above 0 a view gets 1 to `most` of the
    edits, 1 + 0.4 (`most` - 1) on average, chosen with all these numbers as relative weights.
    """

    area: float = 0.2
    crop: float = 0.7
    flip: float = 0.4
    rotate: float = 0.4
    perspective: float = 0.25
    shrink: float = 0.2
    colour: float = 0.6
    grey: float = 0.08
    blur: float = 0.2
    noise: float = 0.2
    overlay: float = 0.35
    jpeg: float = 0.3
    most: int = 0
    stretch: float = 0.0
    pad: float = 0.0
    tint: float = 0.0
    invert: float = 0.0
    posterise: float = 0.0
    solarise: float = 0.0
    shuffle: float = 0.0
    vignette: float = 0.0
    stripes: float = 0.0
    watermark: float = 0.0
    caption: float = 0.0
    paste: float = 0.0
    collage: float = 0.0
    screenshot: float = 0.0
    photograph: float = 0.0
    sharpen: float = 0.0
    pixelate: float = 0.0
    motion: float = 0.0
    salt: float = 0.0


HEAVY = Strength()
MILD = Strength(0.7, 0.4, 0.0, 0.15, 0.1, 0.05, 0.3, 0.0, 0.1, 0.1, 0.05, 0.2)
SHOT = Strength(0.4, 0.7, 0.3, 0.4, 0.3, 0.15, 0.6, 0.02, 0.2, 0.15, 0.05, 0.2)
HARD = Strength(
    area=0.06,
    crop=1.0,
    flip=0.5,
    rotate=0.6,
    perspective=0.4,
    shrink=0.2,
    colour=0.7,
    grey=0.2,
    blur=0.4,
    noise=0.4,
    overlay=0.9,
    jpeg=0.7,
    most=6,
    stretch=0.4,
    pad=0.3,
    tint=0.2,
    invert=0.12,
    posterise=0.15,
    solarise=0.1,
    shuffle=0.15,
    vignette=0.2,
    stripes=0.25,
    watermark=0.35,
    caption=0.7,
    paste=0.5,
    collage=0.3,
    screenshot=0.45,
    photograph=0.35,
    sharpen=0.25,
    pixelate=0.25,
    motion=0.2,
    salt=0.15,
)
