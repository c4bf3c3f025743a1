"""What turns the pixels of a panel into features, under one interface: settings (`Encoder`) that build a module."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from diptych_model.encoders.encoder import Encoder
from diptych_model.encoders.inverted_residual import EfficientNetLite, EfficientNetLiteEncoder, load_imagenet
from diptych_model.encoders.residual import Residual, ResidualEncoder
from diptych_model.settings import known_settings

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
    kind = values.get("kind", "residual")
    if kind not in ENCODERS:
        near = get_close_matches(str(kind), ENCODERS, 1)
        raise ValueError(
            f"there is no encoder {kind!r}" + (f"; did you mean {near[0]!r}?" if near else f": {', '.join(ENCODERS)}")
        )
    cls = ENCODERS[kind]
    known = known_settings(cls, {k: v for k, v in values.items() if k != "kind"}, f"the encoder {kind!r}")
    return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in known.items()})
