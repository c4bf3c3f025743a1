"""Training edits: batches of pictures as tensors, edited where the generator is.

Every function takes and returns pictures (B, 3, S, S) in [0, 1] and draws from the generator it is given, so that a
step of training is the same whenever it is run again. With these a network is trained, never measured: the edits that
measure are in `edits`, and neither imports the other.
"""

from diptych_training.data.augment.engine import HARD, HEAVY, MILD, SHOT, Strength, edit_photos
from diptych_training.data.augment.overlays import Layers, draw_layers, draw_sprites
from diptych_training.data.augment.views import Views, make_identity_places, view_unedited

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
    "edit_photos",
    "make_identity_places",
    "view_unedited",
]
