"""Densely connected networks (Huang et al. 2017) whose 3x3 convolutions any mixer can replace (section 6 of the MSAC
paper).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.mixers.mixer import Mixer, Place
from diptych_studies.mixers.convolution import Convolution
from diptych_studies.mixers.stand_alone import average_pool
from diptych_studies.networks.resnet import ChannelNorm, ConvolutionStem, mixers_by_stage

DEPTHS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32)}
BOTTLENECK = 4

Picture = Float[Tensor, "batch rows cols d"]


class DenseLayer(nn.Module):
    """[x, H(x)], H = normalisation, ReLU, 1x1 to 4 g channels, normalisation, ReLU, the mixer to g channels."""

    def __init__(self, place: Place, spatial: Mixer) -> None:
        super().__init__()
        inner = BOTTLENECK * place.d_o
        self.before = ChannelNorm(place.d)
        self.narrow = Convolution(1, 1, Place(place.d, inner, place.rows, place.cols))
        self.norm = ChannelNorm(inner)
        self.spatial = spatial.build(Place(inner, place.d_o, place.rows, place.cols))

    def forward(self, x: Picture) -> Float[Tensor, "batch rows cols d_o"]:
        """(B, N, M, d) -> (B, N, M, d + g)."""
        y = self.narrow(self.before(x).relu())
        return torch.cat([x, self.spatial(self.norm(y).relu())], -1)


class Transition(nn.Module):
    """Normalisation, ReLU, 1x1 to d_o channels, 2x2 average pooling."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.norm = ChannelNorm(place.d)
        self.narrow = Convolution(1, 1, Place(place.d, place.d_o, place.rows, place.cols))

    def forward(self, x: Picture) -> Float[Tensor, "batch rows_out cols_out d_o"]:
        """(B, N, M, d) -> (B, ceil(N / 2), ceil(M / 2), d_o)."""
        return average_pool(self.narrow(self.norm(x).relu()), 2)


class DenseNet(nn.Module):
    """Pictures (B, rows, cols, d) -> logits (B, classes).

    `depths` are the layers of each dense block (`DEPTHS[121]` makes DenseNet-121), `growth` the channels g that a layer
    adds, `width` those of the stem, 2 g by default; a transition halves channels, rows and columns. `spatial` stands in
    the place of every 3x3 convolution; a sequence of mixers has one for each block.
    """

    def __init__(
        self,
        depths: Sequence[int],
        classes: int,
        rows: int,
        cols: int,
        *,
        d: int = 3,
        growth: int = 32,
        width: int | None = None,
        spatial: Mixer | Sequence[Mixer] | None = None,
    ) -> None:
        super().__init__()
        taken = 2 * growth if width is None else width
        if not depths or min(*depths, classes, rows, cols, d, growth, taken) < 1:
            raise ValueError(
                f"depths, classes, rows, cols, d, growth and width must be positive, "
                f"got {tuple(depths)}, {(classes, rows, cols, d, growth, taken)}"
            )
        self.d, grid = d, (-(-rows // 4), -(-cols // 4))
        layers: list[nn.Module] = [ConvolutionStem(d, taken, rows, cols)]
        for number, (depth, mixer) in enumerate(zip(depths, mixers_by_stage(spatial, len(depths)), strict=True)):
            if number:
                place = Place(taken, taken // 2, *grid, stride=2)
                layers.append(Transition(place))
                taken, grid = place.d_o, place.grid
            for _ in range(depth):
                layers.append(DenseLayer(Place(taken, growth, *grid), mixer))
                taken += growth
        self.layers = nn.Sequential(*layers)
        self.norm = ChannelNorm(taken)
        self.head = nn.Linear(taken, classes)

    def forward(self, x: Picture) -> Float[Tensor, "batch classes"]:
        """Pictures (B, N, M, d) -> logits (B, classes)."""
        if x.dim() != 4 or x.shape[-1] != self.d:
            raise ValueError(f"pictures must be (B, N, M, {self.d}), channels last, got {tuple(x.shape)}")
        return self.head(self.norm(self.layers(x)).relu().mean((1, 2)))
