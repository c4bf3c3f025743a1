"""The repertoires: which edits there are, how many a picture gets, and in which order.

*Easy* has seven edits, one to three at once; *hard* has them and thirty further ones, one to five at once: what people
and platforms do to pictures. The order of the edits is part of what a seed draws.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image

from diptych_training.data.canvas import bound_sides
from diptych_training.data.edits import easy, geometry, overlays, pixels, scenes
from diptych_training.data.edits.props import Props

Edit = Callable[[Image.Image, np.random.Generator], Image.Image]

LEAST, MOST = 24, 720  # pixels of a side, after each edit

SCENES = ("phone", "website", "paste_in", "collage")
# After these the picture is a part of what is seen, and what comes `BEFORE_SMALLER` would leave too little of it.
SMALLER = (*SCENES, "mirror_tile", "screen_photo", "border", "square", "turn", "rotate", "perspective")
BEFORE_SMALLER = ("crop", "small_crop", "pixelate", "blur", "motion_blur", "jpeg_blocks")
# At most so many of each of these at once: more leave a picture in which nobody would find the original, and people
# make one scene of a picture.
LIMITS = (
    ((*SCENES, "mirror_tile", "small_crop"), 1),
    (("crop", "small_crop"), 1),
    (("rotate", "turn", "perspective"), 1),
    (("invert", "posterise", "solarise", "duotone", "small_crop"), 1),
    (("colour", "colour_filter", "channels", "vignette"), 2),
    (("pixelate", "blur", "motion_blur", "noise", "jpeg_blocks", "small_crop", "solarise", "stripes"), 1),
    (("crop", "pixelate", "blur", "motion_blur"), 1),
    (("pixelate", "jpeg", "jpeg_blocks", "small_crop"), 1),
    (("turn", "paste_in", "collage"), 1),
    (("pixelate", "blur", "motion_blur", "noise", "jpeg", "jpeg_twice", "jpeg_blocks"), 2),
    (("noise", "sharpen", "small_crop"), 1),
    (("caption", "meme"), 1),
    (("caption", "meme", "stickers", "stripes", "watermark", "overlay"), 2),
)

EDITS: dict[str, Edit] = {
    edit.__name__: edit
    for edit in (easy.crop, easy.flip, easy.rotate, easy.colour, easy.jpeg, easy.overlay, easy.border)
}


def hard_edits(props: Props) -> dict[str, Edit]:
    """The edits by name, the easy ones first; `props` are put beside and upon a picture."""
    further: tuple[Callable[..., Image.Image], ...] = (
        *(pixels.invert, pixels.posterise, pixels.solarise, pixels.channels, pixels.duotone, pixels.vignette),
        *(pixels.colour_filter, pixels.pixelate, pixels.sharpen, pixels.blur, pixels.motion_blur, pixels.noise),
        *(pixels.jpeg_twice, pixels.jpeg_blocks, geometry.stretch, geometry.square, geometry.small_crop, geometry.turn),
        *(geometry.perspective, geometry.mirror_tile, overlays.caption, overlays.meme, overlays.stickers),
        *(overlays.stripes, overlays.watermark, scenes.phone, scenes.website, scenes.screen_photo, scenes.paste_in),
        scenes.collage,
    )
    with_props = (overlays.stickers, scenes.website, scenes.paste_in, scenes.collage)
    given: dict[str, Edit] = {
        edit.__name__: partial(edit, **({"props": props} if edit in with_props else {})) for edit in further
    }
    return EDITS | given


def edit_picture(picture: Image.Image, rng: np.random.Generator) -> tuple[Image.Image, list[str]]:
    """Apply one to three different easy edits in random order; return the edited picture and the names of the edits."""
    names = [str(name) for name in rng.permutation(list(EDITS))[: rng.integers(1, 4)]]
    for name in names:
        picture = EDITS[name](picture, rng)
    return picture, names


def draw_names(rng: np.random.Generator, names: list[str]) -> list[str]:
    """Choose one to five different names, in the order in which the edits are made, within `LIMITS`.

    The order is random but for `BEFORE_SMALLER`.
    """
    count, chosen = int(rng.integers(1, 6)), []
    for name in rng.permutation(names).tolist():
        if len(chosen) < count and all(
            name not in group or sum(other in group for other in chosen) < most for group, most in LIMITS
        ):
            chosen.append(name)
    if any(name in SMALLER for name in chosen):
        chosen.sort(key=lambda name: name not in BEFORE_SMALLER)
    return chosen


def edit_hard(picture: Image.Image, rng: np.random.Generator, props: Props) -> tuple[Image.Image, list[str]]:
    """Apply one to five different edits; return the edited picture and their names, in order.

    Between edits a picture is scaled so that its sides have 24 to 720 pixels, as a platform does on upload.
    """
    edits = hard_edits(props)
    names = draw_names(rng, list(edits))
    picture = bound_sides(picture, LEAST, MOST)
    for name in names:
        picture = bound_sides(edits[name](picture, rng), LEAST, MOST)
    return picture, names
