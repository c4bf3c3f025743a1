"""The hard repertoire: what people and platforms do to pictures, one to five edits at once."""

from functools import partial

import numpy as np
from PIL import Image

from diptych_training.data.edits import detail, geometry, overlays, scenes, tones
from diptych_training.data.edits.easy import EDITS, Edit
from diptych_training.data.edits.geometry import bounded
from diptych_training.data.edits.props import Props

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


def hard_edits(props: Props) -> dict[str, Edit]:
    """The edits by name, the easy ones first; `props` are put beside and upon a picture."""
    return EDITS | {
        "invert": tones.invert,
        "posterise": tones.posterise,
        "solarise": tones.solarise,
        "channels": tones.channels,
        "duotone": tones.duotone,
        "vignette": tones.vignette,
        "colour_filter": tones.colour_filter,
        "pixelate": detail.pixelate,
        "sharpen": detail.sharpen,
        "blur": detail.blur,
        "motion_blur": detail.motion_blur,
        "noise": detail.noise,
        "jpeg_twice": detail.jpeg_twice,
        "jpeg_blocks": detail.jpeg_blocks,
        "stretch": geometry.stretch,
        "square": geometry.square,
        "small_crop": geometry.small_crop,
        "turn": geometry.turn,
        "perspective": geometry.perspective,
        "mirror_tile": geometry.mirror_tile,
        "caption": overlays.caption,
        "meme": overlays.meme,
        "stickers": partial(overlays.stickers, props=props),
        "stripes": overlays.stripes,
        "watermark": overlays.watermark,
        "phone": scenes.phone,
        "website": partial(scenes.website, props=props),
        "screen_photo": scenes.screen_photo,
        "paste_in": partial(scenes.paste_in, props=props),
        "collage": partial(scenes.collage, props=props),
    }


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
    picture = bounded(picture, LEAST, MOST)
    for name in names:
        picture = bounded(edits[name](picture, rng), LEAST, MOST)
    return picture, names
