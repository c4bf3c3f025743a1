"""XCiT as a classifier (El-Nouby et al. 2021): a stem of convolutions, layers of XCA and LPI, then of class attention.

Nothing in it attends from token to token but the class tokens of the last layers, so its cost is linear in the tokens.
"""

from functools import partial
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.mixers.mixer import Place
from diptych_studies.mixers.convolution import Convolution
from diptych_studies.mixers.cross_covariance import ClassAttention, CrossCovarianceAttention, LocalPatchInteraction
from diptych_studies.networks.resnet import ChannelNorm, Factory

FREQUENCIES = 32

Picture = Float[Tensor, "batch rows cols d"]
Tokens = Float[Tensor, "batch tokens d"]
Class = Float[Tensor, "batch d"]


class PatchStem(nn.Module):
    """Pictures to tokens by 3x3 convolutions of stride 2, each normalised, with GELU between: one for every halving of
    the `patch`, the last of width d and each before it of half the next.

    `forward` takes (B, N, M, channels) and returns (B, ceil(N / patch), ceil(M / patch), d).
    """

    def __init__(self, channels: int, d: int, patch: int) -> None:
        super().__init__()
        halvings = patch.bit_length() - 1
        if patch < 2 or patch != 2**halvings or d % 2 ** (halvings - 1):
            raise ValueError(
                f"a patch must be a power of two from 2, and d a multiple of half of it, got patch {patch} and d = {d}"
            )
        widths = [channels, *(d // 2 ** (halvings - step) for step in range(1, halvings + 1))]
        layers: list[nn.Module] = []
        for taken, given in pairwise(widths):
            layers += [Convolution(3, 3, Place(taken, given, 1, 1, stride=2)), ChannelNorm(given), nn.GELU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Picture) -> Float[Tensor, "batch rows_out cols_out d_o"]:
        """(B, N, M, channels) -> (B, ceil(N / patch), ceil(M / patch), d)."""
        return self.layers(x)


class Positions(nn.Module):
    """The place of every token: sines and cosines of its row and its column, as shares of the picture, and a linear map
    of them to d channels. It fits any grid.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.map = nn.Linear(2 * FREQUENCIES, d)

    def forward(self, rows: int, cols: int) -> Float[Tensor, "rows cols d"]:
        """The positions of a grid, (rows, cols, d)."""
        weight = self.map.weight
        exponents = torch.arange(FREQUENCIES // 2, dtype=weight.dtype, device=weight.device) * 2 / FREQUENCIES

        def waves(size: int) -> Tensor:
            place = torch.arange(1, size + 1, dtype=weight.dtype, device=weight.device) / size * (2 * torch.pi)
            angles = place[:, None] / 10_000**exponents
            return torch.cat([angles.sin(), angles.cos()], -1)

        down, across = waves(rows)[:, None].expand(-1, cols, -1), waves(cols).expand(rows, -1, -1)
        return self.map(torch.cat([down, across], -1))


class CrossCovarianceBlock(nn.Module):
    """x + g_1 XCA(norm x), then x + g_2 LPI(norm x), then x + g_3 FFN(norm x), every g one number a channel.

    `attention` is XCA, or what stands in its place. `forward` maps (B, N, M, d) to the same shape.
    """

    def __init__(self, d: int, hidden: int, attention: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = attention
        self.local = LocalPatchInteraction(d)
        self.feed = _feed_forward(d, hidden, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
        self.scales = nn.ParameterList(torch.ones(d) for _ in range(3))

    def forward(self, x: Picture) -> Picture:
        """(B, N, M, d) -> the same shape."""
        for part, norm, scale in zip((self.attention, self.local, self.feed), self.norms, self.scales, strict=True):
            x = x + scale * part(norm(x))
        return x


class ClassBlock(nn.Module):
    """z + g_1 CA(norm [z, x]), then z + g_2 FFN(norm z), z the class token (Touvron et al. 2021): the tokens x stay.

    `forward` takes z (B, d) and x (B, T, d) and returns (B, d).
    """

    def __init__(self, d: int, heads: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = ClassAttention(d, heads)
        self.feed = _feed_forward(d, hidden, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.scales = nn.ParameterList(torch.ones(d) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, token: Class, x: Tokens) -> Class:
        """(B, d) and (B, T, d) -> (B, d)."""
        attended = self.attention(self.norms[0](token), self.norms[0](x))
        token = token + self.scales[0] * self.dropout(attended)
        return token + self.scales[1] * self.feed(self.norms[1](token))


class XCiT(nn.Module):
    """Pictures (B, rows, cols, channels) -> logits (B, classes), of any number of rows and columns.

    `depth` layers of XCA and LPI over tokens of `patch` x `patch` pixels, then `class_depth` layers in which a class
    token gathers from them what it needs. `attention_dropout` drops coefficients of XCA, `dropout` the results of both
    attentions and of the feed-forward parts, whose hidden width is `expansion` times d. `attention` makes for a width
    what stands in the place of XCA, to compare it with. XCiT-S12/16 is d = 384, depth 12, 8 heads and a patch of 16;
    unlike its program, XCA has no biases here and nothing drops whole layers.
    """

    def __init__(
        self,
        classes: int,
        *,
        channels: int = 3,
        d: int = 128,
        depth: int = 12,
        heads: int = 4,
        patch: int = 16,
        class_depth: int = 2,
        expansion: int = 4,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        attention: Factory | None = None,
    ) -> None:
        super().__init__()
        if min(classes, channels, depth, class_depth, expansion) < 1:
            raise ValueError(
                "classes, channels, depth, class_depth and expansion must be positive, "
                f"got {(classes, channels, depth, class_depth, expansion)}"
            )
        self.channels = channels
        self.stem = PatchStem(channels, d, patch)
        self.positions = Positions(d)
        self.dropout = nn.Dropout(dropout)
        hidden = expansion * d
        made = attention or partial(
            CrossCovarianceAttention, heads=heads, attention_dropout=attention_dropout, dropout=dropout
        )
        blocks = (CrossCovarianceBlock(d, hidden, made(d), dropout=dropout) for _ in range(depth))
        self.layers = nn.Sequential(*blocks)
        self.token = nn.Parameter(torch.randn(d) * 0.02)
        self.class_layers = nn.ModuleList(ClassBlock(d, heads, hidden, dropout=dropout) for _ in range(class_depth))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)

    def forward(self, x: Picture) -> Float[Tensor, "batch classes"]:
        """Pictures (B, N, M, channels) -> logits (B, classes)."""
        if x.dim() != 4 or x.shape[-1] != self.channels:
            raise ValueError(f"pictures must be (B, N, M, {self.channels}), channels last, got {tuple(x.shape)}")
        x = self.stem(x)
        x = self.layers(self.dropout(x + self.positions(*x.shape[1:3])))
        token, tokens = self.token.expand(len(x), -1), x.flatten(1, 2)
        for layer in self.class_layers:
            token = layer(token, tokens)
        return self.head(self.norm(token))


def _feed_forward(d: int, hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(d, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, d), nn.Dropout(dropout)
    )
