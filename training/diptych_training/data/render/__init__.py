"""Pictures of things that were never photographed: photos as textures on cartons, cans, books, paper and bags.

`draw_things` makes things, `draw_lookalikes` their lookalikes, `render_things` a picture of each from a drawn side,
with the place of every pixel on the thing: two pictures of one thing are a pair with a true change of viewpoint.
"""

from diptych_training.data.augment.views import OUTSIDE
from diptych_training.data.render.scene import draw_scenes, render_things, shoot_scenes, texture_side
from diptych_training.data.render.things import SHAPES, Things, draw_lookalikes, draw_things, join_things

__all__ = [
    "OUTSIDE",
    "SHAPES",
    "Things",
    "draw_lookalikes",
    "draw_scenes",
    "draw_things",
    "join_things",
    "render_things",
    "shoot_scenes",
    "texture_side",
]
