"""Edits of pictures as tensors, a whole batch at a time: how training makes two views of one photo.

Every function takes and returns pictures (B, 3, S, S) in [0, 1] and draws from the generator it is given, so that a
step of training is the same whenever it is run again; all of it happens on the generator's device. The edits people
make with files (Pillow) stand in `edits`, for measuring.
"""

from torch import Generator, Tensor

from diptych_training.data.augment.counted import edit_counted
from diptych_training.data.augment.layers import Layers, draw_layers
from diptych_training.data.augment.separate import edit_separately
from diptych_training.data.augment.sprites import draw_sprites, load_emoji
from diptych_training.data.augment.strength import HARD, HEAVY, MILD, SHOT, Strength
from diptych_training.data.augment.views import Views, plain, unmoved

__all__ = [
    "HARD",
    "HEAVY",
    "MILD",
    "SHOT",
    "Layers",
    "Strength",
    "Views",
    "draw_layers",
    "draw_sprites",
    "edit",
    "load_emoji",
    "plain",
    "unmoved",
]


def edit(
    photos: Tensor,
    size: int,
    strength: Strength,
    generator: Generator,
    sprites: Tensor,
    *,
    backgrounds: Tensor | None = None,
    layers: Layers | None = None,
) -> Views:
    """Return one edited view of each photo: uint8 (B, H, H, 3) -> pictures (B, 3, size, size).

    `sprites` are stickers, RGBA uint8 (n, 4, h, h). The last two arguments are for strengths with `most` above 0, and
    refused for others: `backgrounds` are photos to paste views into, uint8 (n, H, H, 3), by default the other photos of
    the batch; `layers` are captions and screenshots, by default `standard_layers`.
    """
    if strength.most:
        return edit_counted(photos, size, strength, generator, sprites, backgrounds, layers)
    if backgrounds is not None or layers is not None:
        raise ValueError(
            "backgrounds and layers are expected only with a strength whose `most` is above 0, but it is 0; "
            "leave them out, or edit with HARD"
        )
    return edit_separately(photos, size, strength, generator, sprites)
