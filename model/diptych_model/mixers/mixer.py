"""The interface of mixers: the place at which a mixer stands, and how it is built there."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.attention import BIASES


@dataclass(frozen=True)
class Place:
    """The place of a mixer in a network: it takes (B * panels, rows, cols, d) and gives (B * panels, ceil(rows /
    stride), ceil(cols / stride), d_o); smaller grids pass too where the operator has no fixed size.

    With two panels the operator must let each see the other. An attention over all positions runs over those of both
    panels. A local operator would never leave its panel, so its window takes in the same place of the other panel
    too, with filters of its own. `segments` asks for a *relative* segment: parameters that tell the same panel from
    the other without naming a first one. `bias` says where relative positions are counted (*panel*, *concatenated*:
    over the columns of t = [x, z], or *none*). `open_seam` lays the panels side by side for every window, the paper's
    literal form; then a local operator sees the other panel across the seam only.
    """

    d: int
    d_o: int
    rows: int
    cols: int
    panels: int = 1
    stride: int = 1
    segments: bool = False
    bias: str = "panel"
    open_seam: bool = False

    def __post_init__(self) -> None:
        sizes = (self.d, self.d_o, self.rows, self.cols, self.panels, self.stride)
        if min(sizes) < 1:
            raise ValueError(f"d, d_o, rows, cols, panels and stride must be positive, got {sizes}")
        if self.bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(BIASES)}, got {self.bias!r}")

    @property
    def grid(self) -> tuple[int, int]:
        """Positions after the stride."""
        return -(-self.rows // self.stride), -(-self.cols // self.stride)


@runtime_checkable
class Mixer(Protocol):
    """The settings of an operator, frozen and checked; `build` makes the module for a place.

    `kind` is its name in a configuration.
    """

    @property
    def kind(self) -> str:
        """The name in a configuration."""
        ...

    def build(self, place: Place) -> nn.Module:
        """The module that maps (B * panels, rows, cols, d) to (B * panels, ..., d_o) at this place."""
        ...


@runtime_checkable
class Attentive(Protocol):
    """An operator whose positions attend to single positions of the other panel, and that can say how much.

    Convolution and squeeze-and-excitation have no such attention; cross-covariance attends to channels, stand-alone
    attention to a window.
    """

    def seam_attention(self, x: Float[Tensor, "stacked rows cols d"]) -> Float[Tensor, "stacked heads tokens tokens"]:
        """The attention of each position of a panel (rows) to those of the other (columns).

        (B * 2, N, M, d) -> (B * 2, C, T, T), T = N M. Coefficients are >= 0, and a row's sum is at most 1: the rest
        stays in its own panel.
        """
        ...
