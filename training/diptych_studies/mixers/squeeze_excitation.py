"""Squeeze-and-excitation (Hu et al. 2018): channels weighed by what the whole picture holds; and as a mixer."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.convolution import convolve, new_filters
from diptych_model.mixers.mixer import Place
from diptych_studies.mixers.convolution import Convolution, swap_panels
from diptych_studies.mixers.places import require_supported

Picture = Float[Tensor, "stacked rows cols d"]


class SqueezeExcitation(nn.Module):
    """s = sigmoid(W_2 relu(W_1 z)), x~_c = s_c u_c, z the mean of u over its positions (Hu et al. 2018, Eq. 2-4;
    guide Eq. 7-9).

    W_1 is (d / reduction, d) and W_2 (d, d / reduction), without biases as in the equations. Of two panels each is
    weighed by its own means and then the other's: z = [z_own, z_other] and W_1 (d / reduction, 2 d). `forward` maps
    (B * panels, N, M, d) to the same shape. Raises `ValueError` if the reduction does not divide d.
    """

    def __init__(self, d: int, reduction: int = 4, *, panels: int = 1) -> None:
        super().__init__()
        if reduction < 1 or d % reduction:
            raise ValueError(f"the reduction must divide the channels: {d} channels, reduction {reduction}")
        if panels not in (1, 2):
            raise ValueError(f"squeeze-and-excitation weighs one panel or two that face each other, got {panels}")
        self.panels = panels
        self.W_1 = new_filters(d // reduction, d * panels, 1, 1)
        self.W_2 = new_filters(d, d // reduction, 1, 1)

    def forward(self, u: Picture) -> Picture:
        """(B * panels, N, M, d) -> the same shape."""
        z = u.mean((1, 2), keepdim=True)
        if self.panels == 2:
            z = torch.cat([z, swap_panels(z)], -1)
        s = torch.sigmoid(convolve(F.relu(convolve(z, self.W_1)), self.W_2))
        return u * s


class SqueezedConvolution(nn.Module):
    """A convolution, then squeeze-and-excitation of its output.

    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o).
    """

    def __init__(self, n: int, m: int, reduction: int, place: Place) -> None:
        super().__init__()
        self.convolution = Convolution(n, m, place)
        self.excitation = SqueezeExcitation(place.d_o, reduction, panels=place.panels)

    def forward(self, x: Picture) -> Float[Tensor, "stacked rows_out cols_out d_o"]:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        return self.excitation(self.convolution(x))


@dataclass(frozen=True)
class SqueezeExcitationConvolution:
    """An n x m convolution whose output channels are weighed by squeeze-and-excitation.

    It always tells the same panel from the other: W_1 takes them in that order. With the seam open the windows cross
    it, and the means remain those of each panel.
    """

    n: int = 3
    m: int = 3
    reduction: int = 4
    kind: str = field(default="squeeze_excitation", init=False)

    def __post_init__(self) -> None:
        if min(self.n, self.m, self.reduction) < 1:
            raise ValueError(f"n, m and reduction must be positive, got {self}")

    def build(self, place: Place) -> SqueezedConvolution:
        """The operator for a place."""
        require_supported(place, self.kind, panels=(1, 2), bias=("panel", "none"))
        return SqueezedConvolution(self.n, self.m, self.reduction, place)
