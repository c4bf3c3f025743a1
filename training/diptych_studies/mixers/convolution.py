"""Plain convolution as a mixer, and the panels swapped, which every local operator looks at."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.convolution import convolve, new_filters
from diptych_model.mixers.mixer import Place
from diptych_studies.mixers.places import count_joined_panels, has_facing_panel, require_supported


def swap_panels(x: Float[Tensor, "stacked rows cols d"]) -> Float[Tensor, "stacked rows cols d"]:
    """The other panel of each picture in each panel's place: (B * 2, N, M, d) -> the same shape."""
    if x.shape[0] % 2:
        raise ValueError(f"pictures of 2 panels are stacked 2 by 2, got {x.shape[0]} panels")
    _, rows, cols, d = x.shape
    return x.reshape(-1, 2, rows, cols, d).flip(1).reshape(-1, rows, cols, d)


class Convolution(nn.Module):
    """y = x * H (Definitions 1 and 2). Facing another panel z: y = [x, z'] * H, z' the other panel as channels.

    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o).
    """

    def __init__(self, n: int, m: int, place: Place, *, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.stride, self.dilation, self.groups = place.stride, dilation, groups
        self.joined, self.faced = count_joined_panels(place), has_facing_panel(place)
        taken = place.d * (2 if has_facing_panel(place) else 1)
        if taken % groups or place.d_o % groups:
            raise ValueError(f"{groups} groups must divide the channels taken, {taken}, and given, {place.d_o}")
        self.H = new_filters(place.d_o, taken // groups, n, m)

    def forward(self, x: Float[Tensor, "stacked rows cols d"]) -> Float[Tensor, "stacked rows_out cols_out d_o"]:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        if self.faced:
            x = torch.cat([x, swap_panels(x)], -1)
        return convolve(x, self.H, stride=self.stride, dilation=self.dilation, groups=self.groups, joined=self.joined)


@dataclass(frozen=True)
class PlainConvolution:
    """An n x m convolution. It always tells the same panel from the other: their filters differ."""

    n: int = 3
    m: int = 3
    dilation: int = 1
    groups: int = 1
    kind: str = field(default="convolution", init=False)

    def __post_init__(self) -> None:
        if min(self.n, self.m, self.dilation, self.groups) < 1:
            raise ValueError(f"n, m, dilation and groups must be positive, got {self}")

    def build(self, place: Place) -> Convolution:
        """The operator for a place."""
        if not place.open_seam:
            require_supported(place, self.kind, panels=(1, 2))
        return Convolution(self.n, self.m, place, dilation=self.dilation, groups=self.groups)
