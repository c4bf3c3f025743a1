"""A small SAGAN (Zhang et al. 2018): a generator and a discriminator of convolutions under spectral normalisation
(Miyato et al. 2018), in each one block of self-attention, whose share gamma begins at zero, and the hinge loss.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from diptych_studies.mixers.non_local import NonLocalBlock

START = 4  # positions along a side that a generator begins with, and a discriminator ends with

Latent = Float[Tensor, "batch z"]
Pictures = Float[Tensor, "batch 3 size size"]
Logits = Float[Tensor, " batch"]


@dataclass(frozen=True)
class SaganConfig:
    """The shape of both networks: pictures of `pixels` a side, 4 times a power of two, made of `latent` normal numbers.

    `width` are the channels at full size, doubled at every halving. `attend` is the side of the grid that attends to
    itself, one of those between the smallest and the picture; 0 for networks without attention.
    """

    pixels: int = 32
    latent: int = 32
    width: int = 16
    attend: int = 8
    reduction: int = 4

    def __post_init__(self) -> None:
        if min(self.latent, self.width, self.reduction) < 1:
            raise ValueError(f"latent, width and reduction must be positive, got {self}")
        if self.pixels <= START or self.pixels != START << self.halvings:
            raise ValueError(f"pixels must be {START} times a power of two, from {2 * START}, got {self.pixels}")
        if self.attend and self.attend not in self.sides[1:-1]:
            raise ValueError(
                f"attend must be one of {', '.join(map(str, self.sides[1:-1]))} or 0, for none, got {self.attend}"
            )

    @property
    def halvings(self) -> int:
        """Halvings from the picture to the smallest grid."""
        return max(0, (self.pixels // START).bit_length() - 1)

    @property
    def sides(self) -> tuple[int, ...]:
        """The sides of all grids, the smallest first."""
        return tuple(START << step for step in range(self.halvings + 1))

    def channels(self, side: int) -> int:
        """The channels of a grid."""
        return self.width * (self.pixels // side)


class SelfAttention(nn.Module):
    """y = x + gamma o over maps (B, d, N, M), gamma from zero, its four 1x1 filters under spectral normalisation."""

    def __init__(self, d: int, reduction: int) -> None:
        super().__init__()
        self.block = NonLocalBlock(d, reduction)
        for name in ("W_f", "W_g", "W_h", "W_v"):
            spectral_norm(self.block.operator, name)

    @property
    def gamma(self) -> Float[Tensor, ""]:
        """The share of the attention in the result."""
        return self.block.gamma

    def forward(self, x: Float[Tensor, "batch d rows cols"]) -> Float[Tensor, "batch d rows cols"]:
        """(B, d, N, M) -> the same shape."""
        return self.block(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Generator(nn.Module):
    """Latent numbers to pictures: a linear map to the smallest grid, then for every doubling the nearest neighbour, a
    3x3 convolution, batch normalisation and a ReLU; tanh at the end.

    `forward` takes (B, latent) and returns (B, 3, S, S) from -1 to 1.
    """

    def __init__(self, config: SaganConfig) -> None:
        super().__init__()
        self.config = config
        smallest = config.channels(START)
        self.begin = spectral_norm(nn.Linear(config.latent, smallest * START**2))
        layers: list[nn.Module] = [nn.BatchNorm2d(smallest), nn.ReLU()]
        for taken, side in zip(config.sides, config.sides[1:], strict=False):
            d = config.channels(side)
            layers += [
                nn.Upsample(scale_factor=2),
                _build_convolution(config.channels(taken), d),
                nn.BatchNorm2d(d),
                nn.ReLU(),
            ]
            if side == config.attend:
                layers.append(SelfAttention(d, config.reduction))
        self.layers = nn.Sequential(*layers, _build_convolution(config.width, 3), nn.Tanh())

    def forward(self, latent: Latent) -> Pictures:
        """(B, latent) -> (B, 3, S, S) from -1 to 1."""
        return self.layers(self.begin(latent).unflatten(1, (-1, START, START)))


class Discriminator(nn.Module):
    """Pictures to one number each, above zero for real ones: for every halving a 4x4 convolution of stride 2 and a
    leaky ReLU, and a linear map of the smallest grid.

    `forward` takes (B, 3, S, S) from -1 to 1 and returns (B,).
    """

    def __init__(self, config: SaganConfig) -> None:
        super().__init__()
        self.config = config
        layers: list[nn.Module] = [_build_convolution(3, config.width), nn.LeakyReLU(0.1)]
        for taken, side in zip(config.sides[:0:-1], config.sides[-2::-1], strict=True):
            d = config.channels(side)
            halved = nn.Conv2d(config.channels(taken), d, 4, stride=2, padding=1)
            layers += [spectral_norm(halved), nn.LeakyReLU(0.1)]
            if side == config.attend:
                layers.append(SelfAttention(d, config.reduction))
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.end = spectral_norm(nn.Linear(config.channels(START) * START**2, 1))

    def forward(self, pictures: Pictures) -> Logits:
        """(B, 3, S, S) -> (B,)."""
        size = self.config.pixels
        if pictures.shape[1:] != (3, size, size):
            raise ValueError(f"pictures must be (B, 3, {size}, {size}), got {tuple(pictures.shape)}")
        return self.end(self.layers(pictures)).squeeze(1)


def list_gammas(network: Generator | Discriminator) -> list[float]:
    """List the share of attention in each block of a network."""
    return [float(module.gamma.detach()) for module in network.modules() if isinstance(module, SelfAttention)]


def discriminator_loss(real: Logits, made: Logits) -> Float[Tensor, ""]:
    """The hinge loss of the discriminator: mean max(0, 1 - D(x)) + mean max(0, 1 + D(G(z)))."""
    return F.relu(1 - real).mean() + F.relu(1 + made).mean()


def generator_loss(made: Logits) -> Float[Tensor, ""]:
    """The loss of the generator: -mean D(G(z))."""
    return -made.mean()


def _build_convolution(taken: int, given: int) -> nn.Module:
    return spectral_norm(nn.Conv2d(taken, given, 3, padding=1))
