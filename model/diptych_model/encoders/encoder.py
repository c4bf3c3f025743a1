"""The interface of encoders: pixels of a panel to a grid of features and a description of the whole."""

from typing import Protocol, runtime_checkable

from torch import nn


@runtime_checkable
class Encoder(Protocol):
    """The settings of an encoder, frozen and checked; `build` makes the module.

    The module maps pictures (B, `channels`, H, W) in [0, 1] to features (B, H / reduction, W / reduction, `width`) and
    a description of each whole picture (B, `pooled`); of pictures of several `panels` side by side it describes each
    panel, (B * panels, `pooled`). It normalises the pictures itself. There are three channels, or more where a segment
    is concatenated to the pixels. `rate` is the share of the learning rate that its weights are given.
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
    def pooled(self) -> int:
        """Channels of the description of the whole."""
        ...

    def build(self, channels: int = 3) -> nn.Module:
        """The module, with random weights."""
        ...
