"""Encoders, which turn the pixels of a panel into features. Their settings, frozen and checked, build the module.

The module maps pictures (B, `channels`, H, W) in [0, 1] to features (B, H / reduction, W / reduction, `width`) and a
description of each whole picture (B, `description_width`); of pictures of several `panels` side by side it describes
each panel, (B * panels, `description_width`). It normalises the pictures itself. There are three channels, or more
where a segment is concatenated to the pixels. The sides of a panel are multiples of `divisor` pixels, and `rate` is the
share of the learning rate that the weights are given.
"""

from collections.abc import Mapping
from typing import Any

from diptych_model.encoders.inverted_residual import EfficientNetLite, EfficientNetLiteEncoder, load_imagenet
from diptych_model.encoders.residual import Residual, ResidualEncoder
from diptych_model.settings import chosen_kind

Encoder = Residual | EfficientNetLite
ENCODERS: dict[str, type[Encoder]] = {"residual": Residual, "efficientnet-lite": EfficientNetLite}

__all__ = [
    "ENCODERS",
    "EfficientNetLite",
    "EfficientNetLiteEncoder",
    "Encoder",
    "Residual",
    "ResidualEncoder",
    "encoder_from",
    "load_imagenet",
]


def encoder_from(values: Mapping[str, Any]) -> Encoder:
    """Read `{"kind": ..., settings}`, as in a recipe or a checkpoint; unknown kinds and settings are refused."""
    cls, known = chosen_kind(ENCODERS, values, "encoder", "residual")
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in known.items()
    }
    return cls(**settings)
