"""Residual networks of bottlenecks (He et al. 2016) whose 3x3 convolutions any mixer can replace (section 6 of the MSAC
paper; Ramachandran et al. 2019).
"""

from collections.abc import Callable, Mapping, Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.mixers.mixer import Mixer, Place
from diptych_studies.mixers.convolution import Convolution, PlainConvolution

DEPTHS = {26: (1, 2, 4, 1), 38: (2, 3, 5, 2), 50: (3, 4, 6, 3)}
EXPANSION = 4

Picture = Float[Tensor, "batch rows cols d"]
Features = Float[Tensor, "batch rows_out cols_out d_o"]
Factory = Callable[[int], nn.Module]


def mixers_by_stage(spatial: Mixer | Sequence[Mixer] | None, stages: int) -> list[Mixer]:
    """The mixer of each stage: a convolution by default, one mixer for all of them, or one apiece."""
    if not isinstance(spatial, Sequence):
        return [spatial or PlainConvolution()] * stages
    if len(spatial) != stages:
        raise ValueError(f"spatial is one mixer, or one for each of the {stages} stages, got {len(spatial)}")
    return list(spatial)


class ChannelNorm(nn.BatchNorm2d):
    """Batch normalisation of the last axis of (B, N, M, d)."""

    def forward(self, input: Picture) -> Picture:
        """(B, N, M, d) -> the same shape."""
        return super().forward(input.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class ConvolutionStem(nn.Module):
    """7x7 convolution of stride 2, normalisation, ReLU, 3x3 max pooling of stride 2: (B, N, M, d) -> (B, ceil(N / 4),
    ceil(M / 4), d_o).
    """

    def __init__(self, d: int, d_o: int, rows: int, cols: int) -> None:
        super().__init__()
        self.convolution = Convolution(7, 7, Place(d, d_o, rows, cols, stride=2))
        self.norm = ChannelNorm(d_o)

    def forward(self, x: Picture) -> Features:
        """(B, N, M, d) -> (B, ceil(N / 4), ceil(M / 4), d_o)."""
        x = self.norm(self.convolution(x)).relu().permute(0, 3, 1, 2)
        return F.max_pool2d(x, 3, 2, 1).permute(0, 2, 3, 1)


class Bottleneck(nn.Module):
    """relu(shortcut(x) + branch(x)); the branch narrows to `width` by 1x1, mixes positions, and widens by 1x1 to four
    times that, normalised after each.

    The stride is that of the mixer, as in the networks that the papers count (the original had it in the first 1x1).
    `scaled` makes what is applied to the branch before the addition, such as squeeze-and-excitation.
    """

    def __init__(self, place: Place, spatial: Mixer, *, scaled: Factory | None = None) -> None:
        super().__init__()
        width, d, d_o = place.d_o, place.d, place.d_o * EXPANSION
        inner = Place(width, width, place.rows, place.cols, stride=place.stride)
        self.narrow = Convolution(1, 1, Place(d, width, place.rows, place.cols))
        self.spatial = spatial.build(inner)
        self.widen = Convolution(1, 1, Place(width, d_o, *place.grid))
        self.norms = nn.ModuleList([ChannelNorm(width), ChannelNorm(width), ChannelNorm(d_o)])
        self.scaled = scaled(d_o) if scaled else None
        self.shortcut = None
        if d != d_o or place.stride > 1:
            across = Place(d, d_o, place.rows, place.cols, stride=place.stride)
            self.shortcut = nn.Sequential(Convolution(1, 1, across), ChannelNorm(d_o))

    def forward(self, x: Picture) -> Features:
        """(B, N, M, d) -> (B, ceil(N / s), ceil(M / s), 4 * width)."""
        y = self.norms[0](self.narrow(x)).relu()
        y = self.norms[1](self.spatial(y)).relu()
        y = self.norms[2](self.widen(y))
        if self.scaled is not None:
            y = self.scaled(y)
        return (y + (x if self.shortcut is None else self.shortcut(x))).relu()


class ResNet(nn.Module):
    """Pictures (B, rows, cols, d) -> logits (B, classes).

    `depths` are the bottlenecks of each stage (`DEPTHS[50]` makes ResNet-50), `width` the inner channels of the first,
    doubled with each. `spatial` stands in the place of every 3x3 convolution, strides included; a sequence of mixers
    has one for each stage, as MSACs of other scales at other depths. What a network may also have is made for a number
    of channels: `stem` for `width`, instead of the convolutional one and like it with a quarter of the rows and
    columns, as `stem=lambda width: AttentionStem(3, width)`; `scaled` for what each residual branch passes before the
    addition; `after` for what follows a stage, counted from one, as `after={3: lambda d: NonLocalBlock(d, 8)}`. Smaller
    pictures pass where the mixer takes them.
    """

    def __init__(
        self,
        depths: Sequence[int],
        classes: int,
        rows: int,
        cols: int,
        *,
        d: int = 3,
        width: int = 64,
        spatial: Mixer | Sequence[Mixer] | None = None,
        stem: Factory | None = None,
        scaled: Factory | None = None,
        after: Mapping[int, Factory] | None = None,
    ) -> None:
        super().__init__()
        if not depths or min(*depths, classes, rows, cols, d, width) < 1:
            raise ValueError(
                f"depths, classes, rows, cols, d and width must be positive, "
                f"got {tuple(depths)}, {(classes, rows, cols, d, width)}"
            )
        if after and not set(after) <= set(range(1, len(depths) + 1)):
            raise ValueError(f"after takes stages from 1 to {len(depths)}, got {sorted(after)}")
        self.stem = stem(width) if stem else ConvolutionStem(d, width, rows, cols)
        self.d, taken, grid = d, width, (-(-rows // 4), -(-cols // 4))
        layers: list[nn.Module] = []
        for stage, (depth, mixer) in enumerate(zip(depths, mixers_by_stage(spatial, len(depths)), strict=True)):
            for block in range(depth):
                stride = 2 if stage and not block else 1
                place = Place(taken, width * 2**stage, *grid, stride=stride)
                layers.append(Bottleneck(place, mixer, scaled=scaled))
                taken, grid = place.d_o * EXPANSION, place.grid
            if after and stage + 1 in after:
                layers.append(after[stage + 1](taken))
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(taken, classes)

    def forward(self, x: Picture) -> Float[Tensor, "batch classes"]:
        """Pictures (B, N, M, d) -> logits (B, classes)."""
        if x.dim() != 4 or x.shape[-1] != self.d:
            raise ValueError(f"pictures must be (B, N, M, {self.d}), channels last, got {tuple(x.shape)}")
        return self.head(self.layers(self.stem(x)).mean((1, 2)))
