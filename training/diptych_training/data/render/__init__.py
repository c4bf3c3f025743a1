"""Pictures of things that were never photographed: photos as textures on cartons, cans, books, paper and bags.

`draw_things` makes things, `vary` their lookalikes, `render` a picture of each from a drawn side, with the place of
every pixel on the thing: two pictures of one thing are a pair with a true change of viewpoint.
"""

from diptych_training.data.augment.views import OUTSIDE
from diptych_training.data.render.scene import draw_scenes, render, shoot, texture_side
from diptych_training.data.render.things import SHAPES, Things, draw_things, join_things, vary

__all__ = [
    "OUTSIDE",
    "SHAPES",
    "Things",
    "draw_scenes",
    "draw_things",
    "join_things",
    "render",
    "shoot",
    "texture_side",
    "vary",
]
