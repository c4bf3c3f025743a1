"""Encoders, which turn the pixels of a panel into features, under one interface: settings (`Encoder`) that build a
module.
"""

from collections.abc import Mapping
from typing import Any

from diptych_model.encoders.encoder import Encoder
from diptych_model.encoders.inverted_residual import EfficientNetLite, EfficientNetLiteEncoder, load_imagenet
from diptych_model.encoders.residual import Residual, ResidualEncoder
from diptych_model.settings import chosen_kind

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
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})
