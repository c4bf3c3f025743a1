"""Stand-alone self-attention (Ramachandran et al. 2019, "Stand-Alone Self-Attention in Vision Models") as a mixer, and
the same paper's attention stem.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.convolution import convolve, new_filters
from diptych_model.mixers.mixer import Place
from diptych_model.panels import join_panels, split_panels
from diptych_studies.mixers.convolution import swap_panels
from diptych_studies.mixers.local_attention import LocalAttention
from diptych_studies.mixers.places import count_joined_panels, has_facing_panel, require_supported

Picture = Float[Tensor, "stacked rows cols d"]
Attended = Float[Tensor, "stacked rows_out cols_out d_o"]


class StandAloneAttention(nn.Module):
    """y_ij = sum_ab softmax_ab(q_ij . k_ab + q_ij . r_(a-i, b-j)) v_ab over a k x k window (the paper's Eq. 3; guide
    Eq. 11), by heads.

    The sums run over the positions of the window that lie in the picture. The first half of a head's r comes from the
    row offset, the second from the column offset. The paper divides by no square root, the guide's Eq. 11 does:
    `scaled`. The projections are dense 1x1 filters by default: only so do the paper's 25.6 M parameters of ResNet-50
    become 18.0 M. With `grouped` each head projects its own d / C channels, as the guide's text has it ("h heads for h
    groups"). A stride s averages s x s positions after the attention, as the paper does; at the lower and right border
    those there are.

    Facing another panel, a window takes in the same k x k positions of it too, with relative embeddings of its own,
    2 k k keys in one softmax; with the seam open windows run over it instead. Where the embeddings cannot tell the
    panels apart (open seam, or no embeddings), `segments` adds q . s to the scores of the other panel's keys.

    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o).
    """

    def __init__(self, k: int, place: Place, *, heads: int = 8, scaled: bool = False, grouped: bool = False) -> None:
        super().__init__()
        if not place.open_seam:
            require_supported(place, "stand_alone", panels=(1, 2), bias=("panel", "none"))
        self.stride, self.joined, self.faced = place.stride, count_joined_panels(place), has_facing_panel(place)
        self.heads, self.groups = heads, heads if grouped else 1
        if place.d_o % heads or place.d % self.groups:
            raise ValueError(
                f"{heads} heads must divide the channels given, {place.d_o}"
                + (f", and, grouped, those taken, {place.d}" if grouped else "")
            )
        e = place.d_o // heads
        self.W_Q = new_filters(place.d_o, place.d // self.groups, 1, 1)
        if not scaled:
            # Scores of unit variance at the start, as scaled ones are; unscaled a wide head would see only itself.
            self.W_Q.data.mul_(e**-0.25)
        # Keys start as queries do: attention begins by looking for what is alike, in the other panel above all.
        self.W_K = nn.Parameter(self.W_Q.detach().clone())
        self.W_V = new_filters(place.d_o, place.d // self.groups, 1, 1)
        embedded = place.bias != "none"
        self.attention = LocalAttention(
            k,
            heads,
            e,
            sources=2 if self.faced else 1,
            embedded=embedded,
            segments=place.segments and place.panels > 1 and not (self.faced and embedded),
            scaled=scaled,
        )

    def forward(self, x: Picture) -> Attended:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        if self.joined > 1:
            x = join_panels(x, self.joined)
        q, k, v = (convolve(x, W, groups=self.groups) for W in (self.W_Q, self.W_K, self.W_V))
        if self.faced:
            keys, values = torch.stack([k, swap_panels(k)], 3), torch.stack([v, swap_panels(v)], 3)
        else:
            keys, values = k.unsqueeze(3), v.unsqueeze(3)
        q, keys, values = (part.unflatten(-1, (self.heads, -1)) for part in (q, keys, values))
        y = self.attention(q, keys, values, x.shape[2] // self.joined).flatten(3)
        return average_pool(split_panels(y, self.joined) if self.joined > 1 else y, self.stride)


class AttentionStem(nn.Module):
    """The paper's attention stem (its Eq. 4): attention within each w x w block of the picture, then batch
    normalisation and w x w max pooling.

    y_ij = sum_ab softmax_ab(q_ij . k_ab) v_ab by heads, ab the positions of ij's block; the values depend on the place
    (a, b) in the block: v_ab = (sum_m p(a, b, m) W_V^m) x_ab, p(a, b, m) = softmax_m((emb_row(a) + emb_col(b)) . nu^m),
    with as many mixtures m as `mixtures`. The paper aligns the window with the pooling, has w = 4 and four mixtures,
    and gives a formula of the values only: our scores have no relative embeddings. `scaled` divides them by sqrt(e).

    `forward` takes (B, N, M, d) and returns (B, N / w, M / w, d_o); `attend_blocks` is what comes before the
    normalisation. Raises `ValueError` for sizes that are no multiples of w.
    """

    def __init__(
        self, d: int, d_o: int, *, heads: int = 8, window: int = 4, mixtures: int = 4, scaled: bool = False
    ) -> None:
        super().__init__()
        if min(heads, window, mixtures) < 1 or d_o % heads:
            raise ValueError(
                f"heads, window and mixtures must be positive and the heads divide d_o = {d_o}, "
                f"got {(heads, window, mixtures)}"
            )
        self.heads, self.window = heads, window
        self.scale = (d_o // heads) ** -0.5 if scaled else 1.0
        self.W_Q = nn.Parameter(torch.randn(d_o, d) * d**-0.5)
        if not scaled:
            self.W_Q.data.mul_((d_o // heads) ** -0.25)
        self.W_K = nn.Parameter(self.W_Q.detach().clone())
        self.W_V = nn.Parameter(torch.randn(mixtures, d_o, d) * d**-0.5)
        self.emb_row = nn.Parameter(torch.randn(window, d_o) * d_o**-0.25)
        self.emb_col = nn.Parameter(torch.randn(window, d_o) * d_o**-0.25)
        self.nu = nn.Parameter(torch.randn(mixtures, d_o) * d_o**-0.25)
        self.norm = nn.BatchNorm2d(d_o)

    def mixture_weights(self) -> Float[Tensor, "window window mixtures"]:
        """The weights of the mixtures at each place: p(a, b, m), which sums to one over m."""
        return ((self.emb_row[:, None] + self.emb_col) @ self.nu.T).softmax(-1)

    def attend_blocks(self, x: Picture) -> Float[Tensor, "stacked rows cols d_o"]:
        """The attention within each block: (B, N, M, d) -> (B, N, M, d_o)."""
        _, N, M, d = x.shape
        w = self.window
        if N % w or M % w:
            raise ValueError(f"the stem's blocks of {w} x {w} must tile the picture, got {N} x {M}")
        blocks = x.reshape(-1, N // w, w, M // w, w, d).transpose(2, 3).reshape(-1, w * w, d)
        q, k = (F.linear(blocks, W) for W in (self.W_Q, self.W_K))
        W_ab = torch.einsum("abm,mfd->abdf", self.mixture_weights(), self.W_V).flatten(0, 1)
        v = torch.einsum("ztd,tdf->ztf", blocks, W_ab)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale).transpose(1, 2).flatten(2)
        return y.reshape(-1, N // w, M // w, w, w, y.shape[-1]).transpose(2, 3).reshape(-1, N, M, y.shape[-1])

    def forward(self, x: Picture) -> Attended:
        """(B, N, M, d) -> (B, N / w, M / w, d_o)."""
        return F.max_pool2d(self.norm(self.attend_blocks(x).permute(0, 3, 1, 2)), self.window).permute(0, 2, 3, 1)


@dataclass(frozen=True)
class StandAlone:
    """Stand-alone self-attention with k x k windows; the paper has k = 7 and 8 heads. See `StandAloneAttention`."""

    k: int = 7
    heads: int = 4
    scaled: bool = False
    grouped: bool = False
    kind: str = field(default="stand_alone", init=False)

    def __post_init__(self) -> None:
        if min(self.k, self.heads) < 1:
            raise ValueError(f"k and heads must be positive, got {self}")

    def build(self, place: Place) -> StandAloneAttention:
        """The operator for a place."""
        return StandAloneAttention(self.k, place, heads=self.heads, scaled=self.scaled, grouped=self.grouped)


def average_pool(x: Float[Tensor, "stacked rows cols d"], s: int) -> Float[Tensor, "stacked rows_out cols_out d"]:
    """The mean of every s x s positions: (B, N, M, d) -> (B, ceil(N / s), ceil(M / s), d)."""
    if s == 1:
        return x
    pooled = F.avg_pool2d(x.permute(0, 3, 1, 2), s, ceil_mode=True, count_include_pad=False)
    return pooled.permute(0, 2, 3, 1)
