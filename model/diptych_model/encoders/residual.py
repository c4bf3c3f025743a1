"""A residual encoder trained from nothing: small and fast."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class Residual:
    """A patch convolution of stride 4 and residual stages, `depths` blocks of `widths` channels in each; every stage
    halves the resolution but the first.
    """

    widths: tuple[int, ...] = (32, 64, 128)
    depths: tuple[int, ...] = (1, 1, 1)
    rate: float = 1.0
    kind: str = field(default="residual", init=False)

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.depths) or not self.widths:
            raise ValueError(f"widths and depths need one entry a stage, got {self.widths} and {self.depths}")
        if min(*self.widths, *self.depths) < 1 or self.rate <= 0:
            raise ValueError(f"widths, depths and rate must be positive, got {self}")

    @property
    def reduction(self) -> int:
        """The width of a feature in pixels."""
        return 4 * 2 ** (len(self.widths) - 1)

    @property
    def divisor(self) -> int:
        """The number of pixels that the side of a panel must be a multiple of."""
        return self.reduction

    @property
    def width(self) -> int:
        """Channels of a feature."""
        return self.widths[-1]

    @property
    def description_width(self) -> int:
        """Channels of the description: the mean and the largest of each feature."""
        return 2 * self.width

    def build(self, channels: int = 3) -> "ResidualEncoder":
        """The module, with random weights."""
        return ResidualEncoder(self, channels)


class ResidualEncoder(nn.Sequential):
    """`Residual` as a module."""

    def __init__(self, settings: Residual, channels: int = 3) -> None:
        d = settings.widths[0]
        layers: list[nn.Module] = [_normed_convolution(channels, d, 7, 4), nn.ReLU()]
        for stage, (width, depth) in enumerate(zip(settings.widths, settings.depths, strict=True)):
            for block in range(depth):
                layers.append(ResidualBlock(d, width, stride=2 if stage and not block else 1))
                d = width
        super().__init__(*layers)

    def forward(
        self, input: Float[Tensor, "batch channels height columns"], panels: int = 1
    ) -> tuple[Float[Tensor, "batch rows cols d"], Float[Tensor, "described pooled"]]:
        """Pictures (B, channels, H, W) in [0, 1] -> features (B, N, M, width) and descriptions (B * panels, pooled)."""
        features = super().forward((input - 0.5) * 4).permute(0, 2, 3, 1)
        described = [torch.cat([x.mean((1, 2)), x.amax((1, 2))], -1) for x in features.chunk(panels, 2)]
        return features, torch.stack(described, 1).flatten(0, 1)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al. 2016); the first may halve the resolution."""

    def __init__(self, d_in: int, d: int, *, stride: int = 1) -> None:
        super().__init__()
        self.first = _normed_convolution(d_in, d, 3, stride)
        self.second = _normed_convolution(d, d, 3, 1, silent=True)
        self.shortcut = nn.Identity() if stride == 1 and d_in == d else _normed_convolution(d_in, d, 1, stride)

    def forward(self, x: Float[Tensor, "batch d_in height width"]) -> Float[Tensor, "batch d height_out width_out"]:
        """(B, d_in, H, W) -> (B, d, H / stride, W / stride)."""
        return F.relu(self.shortcut(x) + self.second(F.relu(self.first(x))))


def _normed_convolution(d_in: int, d: int, size: int, stride: int, *, silent: bool = False) -> nn.Sequential:
    """A convolution and its normalisation. A silent one starts at zero, so that its block starts as the shortcut."""
    convolution, norm = nn.Conv2d(d_in, d, size, stride=stride, padding=size // 2, bias=False), nn.BatchNorm2d(d)
    if silent:
        nn.init.zeros_(norm.weight)
    return nn.Sequential(convolution, norm)
