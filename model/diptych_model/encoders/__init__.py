"""Encoders, which turn the pixels of a panel into features, under one interface: settings (`Encoder`) that build a
module.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import nn

from diptych_model.encoders.inverted_residual import EfficientNetLite, EfficientNetLiteEncoder, load_imagenet
from diptych_model.encoders.residual import Residual, ResidualEncoder
from diptych_model.settings import chosen_kind


@runtime_checkable
class Encoder(Protocol):
    """The settings of an encoder, frozen and checked; `build` makes the module.

    The module maps pictures (B, `channels`, H, W) in [0, 1] to features (B, H / reduction, W / reduction, `width`) and
    a description of each whole picture (B, `description_width`); of pictures of several `panels` side by side it
    describes each panel, (B * panels, `description_width`). It normalises the pictures itself. There are three
    channels, or more where a segment is concatenated to the pixels. `rate` is the share of the learning rate that its
    weights are given.
    """

    @property
    def kind(self) -> str:
        """The encoder's name in a configuration."""
        ...

    @property
    def rate(self) -> float:
        """The share of the learning rate."""
        ...

    @property
    def reduction(self) -> int:
        """The width of a feature in pixels."""
        ...

    @property
    def divisor(self) -> int:
        """The number of pixels that the side of a panel must be a multiple of."""
        ...

    @property
    def width(self) -> int:
        """Channels of a feature."""
        ...

    @property
    def description_width(self) -> int:
        """The number of channels that describe the whole picture."""
        ...

    def build(self, channels: int = 3) -> nn.Module:
        """The module, with random weights."""
        ...


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
