"""The layers of XCiT (El-Nouby et al. 2021): attention over channels, local patches, class attention; and a mixer."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.convolution import convolve, new_filters
from diptych_model.mixers.mixer import Place
from diptych_model.panels import from_sequence, to_sequence
from diptych_studies.mixers.convolution import swap_panels
from diptych_studies.mixers.places import count_joined_panels, has_facing_panel, require_supported

Picture = Float[Tensor, "stacked rows cols d"]


class CrossCovarianceAttention(nn.Module):
    """XCA: every channel of a head becomes a mean of the head's value channels, weighed by
    softmax_c'(tau q^_c . k^_c'), then W_O (El-Nouby et al. 2021, Section 3.2; tau is the inverse of their temperature).

    q^ and k^ have unit length along the tokens, those of all panels; the softmax runs over the channels c' of the
    keys. The product over the tokens is a sum over panels. `segments` weighs its two parts apart for each panel, the
    panel's own tokens by tau[0] and the other's by tau[1]: while these are equal it is the form without segments.

    While it trains, `attention_dropout` is the share of the coefficients that are dropped and `dropout` that of the
    results; what is left is scaled up. `forward` maps (B * panels, N, M, d) to the same shape. Raises `ValueError` if
    the heads do not divide d.
    """

    def __init__(
        self,
        d: int,
        heads: int = 4,
        *,
        panels: int = 1,
        segments: bool = False,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _heads_divide(d, heads)
        self.attention_dropout, self.dropout = nn.Dropout(attention_dropout), nn.Dropout(dropout)
        self.heads, self.panels = heads, panels
        self.W_Q = new_filters(d, d, 1, 1)
        self.W_K = nn.Parameter(self.W_Q.detach().clone())
        self.W_V = new_filters(d, d, 1, 1)
        self.W_O = new_filters(d, d, 1, 1)
        self.tau = nn.Parameter(torch.ones(2 if segments else 1, heads))

    def forward(self, x: Picture) -> Picture:
        """(B * panels, N, M, d) -> the same shape."""
        rows, cols = x.shape[1:3]
        q, k, v = (self._split_heads(convolve(x, weight)) for weight in (self.W_Q, self.W_K, self.W_V))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        tau = self.tau.unflatten(1, (self.heads, 1, 1))
        if len(self.tau) == 1:
            y = self.attention_dropout((q @ k.transpose(-1, -2) * tau[0]).softmax(-1)) @ v
        else:
            # (B, C, e, T) -> (B, panels, C, e, N * M): a covariance for every panel.
            q, k, v = (part.unflatten(3, (self.panels, -1)).movedim(3, 1) for part in (q, k, v))
            covariance = q @ k.transpose(-1, -2)
            others = covariance.sum(1, keepdim=True) - covariance
            y = self.attention_dropout((covariance * tau[0] + others * tau[1]).softmax(-1)) @ v
            y = y.movedim(1, 3).flatten(3)
        return self.dropout(convolve(from_sequence(y.flatten(1, 2).transpose(1, 2), self.panels, rows, cols), self.W_O))

    def _split_heads(self, x: Picture) -> Float[Tensor, "batch heads apiece tokens"]:
        """The positions of all panels by head and channel."""
        return to_sequence(x, self.panels).transpose(1, 2).unflatten(1, (self.heads, -1))


class LocalPatchInteraction(nn.Module):
    """LPI: a depthwise n x n convolution, GELU, BatchNorm and another (El-Nouby et al. 2021, Section 3.3; the order is
    their program's).

    Facing another panel every filter takes in the same window of the same channel there; `joined` panels lie side by
    side for the windows. While training BatchNorm normalises by the whole batch; in evaluation a picture's result does
    not depend on its mates. `forward` maps (B * panels, N, M, d) to (B * panels, ceil(N / s), ceil(M / s), d).
    """

    def __init__(self, d: int, n: int = 3, *, stride: int = 1, faced: bool = False, joined: int = 1) -> None:
        super().__init__()
        self.stride, self.faced, self.joined = stride, faced, joined
        taken = 2 if faced else 1
        self.H_1, self.b_1 = new_filters(d, taken, n, n), nn.Parameter(torch.zeros(d))
        self.norm = nn.BatchNorm2d(d)
        self.H_2, self.b_2 = new_filters(d, taken, n, n), nn.Parameter(torch.zeros(d))

    def forward(self, x: Picture) -> Float[Tensor, "stacked rows_out cols_out d"]:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d)."""
        y = F.gelu(self._convolve_windows(x, self.H_1, 1) + self.b_1)
        y = self.norm(y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return self._convolve_windows(y, self.H_2, self.stride) + self.b_2

    def _convolve_windows(self, x: Tensor, weight: Tensor, stride: int) -> Tensor:
        """A depthwise convolution that takes in the other panel where it is faced."""
        if self.faced:
            # A group is a channel and the same one of the other panel.
            x = torch.stack([x, swap_panels(x)], -1).flatten(-2)
        return convolve(x, weight, stride=stride, groups=len(weight), joined=self.joined)


class ClassAttention(nn.Module):
    """One class token attends to itself and all tokens: q from the token, k and v from [token, x]; only the token gets
    a new value (Touvron et al. 2021, Section 3, Eq. 2-6).

    `forward` takes the class token (B, d) and tokens (B, T, d), such as `panels.to_sequence` gives, and returns what is
    to be added to the class token, (B, d). Raises `ValueError` if the heads do not divide d.
    """

    def __init__(self, d: int, heads: int = 4) -> None:
        super().__init__()
        _heads_divide(d, heads)
        self.attention = nn.MultiheadAttention(d, heads, batch_first=True)
        with torch.no_grad():
            self.attention.in_proj_weight[d : 2 * d] = self.attention.in_proj_weight[:d]

    def forward(self, token: Float[Tensor, "batch d"], x: Float[Tensor, "batch tokens d"]) -> Float[Tensor, "batch d"]:
        """(B, d) and (B, T, d) -> (B, d)."""
        z = torch.cat([token.unsqueeze(1), x], 1)
        return self.attention(z[:, :1], z, z, need_weights=False)[0].squeeze(1)


class CrossCovarianceLayer(nn.Module):
    """a = XCA(u), y = a + LPI(norm(u + a)): an XCiT layer without its feed-forward part (El-Nouby et al. 2021).

    A block adds what this makes of u = norm(x) to x. XCiT has x' = x + XCA(u), then x' + LPI(norm(x')); here this is
    x + a + LPI(norm(u + a)): the same but for x in the second norm's argument, which an operator is not given and for
    which the block's u stands. XCiT's layer scale is left out. A stride keeps the outputs 1, 1 + s, ...; the
    covariances remain those of all positions. Where d_o is not d, H_Y (d_o, d, 1, 1) brings the result to it.

    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o).
    """

    def __init__(self, n: int, heads: int, place: Place) -> None:
        super().__init__()
        self.stride = place.stride
        segments = place.segments and place.panels > 1
        self.attention = CrossCovarianceAttention(place.d, heads, panels=place.panels, segments=segments)
        self.norm = nn.LayerNorm(place.d)
        self.local = LocalPatchInteraction(
            place.d, n, stride=place.stride, faced=has_facing_panel(place), joined=count_joined_panels(place)
        )
        self.H_Y = new_filters(place.d_o, place.d, 1, 1) if place.d_o != place.d else None

    def forward(self, u: Picture) -> Float[Tensor, "stacked rows_out cols_out d_o"]:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        a = self.attention(u)
        y = a[:, :: self.stride, :: self.stride] + self.local(self.norm(u + a))
        return y if self.H_Y is None else convolve(y, self.H_Y)


@dataclass(frozen=True)
class CrossCovariance:
    """XCA of so many heads, then LPI with windows n x n.

    LPI tells the same panel from the other unless the seam is open; `segments` makes XCA do so too. There are no
    positions to bias.
    """

    n: int = 3
    heads: int = 4
    kind: str = field(default="cross_covariance", init=False)

    def __post_init__(self) -> None:
        if min(self.n, self.heads) < 1:
            raise ValueError(f"n and heads must be positive, got {self}")

    def build(self, place: Place) -> CrossCovarianceLayer:
        """The operator for a place."""
        require_supported(place, self.kind, bias=("panel", "none"))
        return CrossCovarianceLayer(self.n, self.heads, place)


def _heads_divide(d: int, heads: int) -> None:
    if heads < 1 or d % heads:
        raise ValueError(f"the heads must divide the channels: {d} channels, {heads} heads")
