"""Attention-augmented convolution (Bello et al. 2019) as a mixer."""

from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.attention import attention_coefficients
from diptych_model.convolution import convolve, new_filters
from diptych_model.mixers.mixer import Place
from diptych_model.panels import from_sequence, join_panels, select_seam_attention, split_panels, to_sequence
from diptych_studies.mixers.convolution import Convolution
from diptych_studies.mixers.places import count_joined_panels, require_supported

Picture = Float[Tensor, "stacked rows cols d"]
Projected = Float[Tensor, "stacked rows cols d_out"]
Pooled = Float[Tensor, "stacked rows_out cols_out d"]


class RelativeEmbedding(nn.Module):
    """The vectors r_{p' - p} of Eq. 10 along one axis, shared by the heads, for positions in one panel or several.

    `segments` learns another set for pairs in different panels. `concatenated` counts positions through all panels.
    """

    def __init__(self, d: int, reach: int, *, panels: int = 1, segments: bool = False, concatenated: bool = False):
        super().__init__()
        self.panels, self.concatenated = panels, concatenated
        self.reach = reach * panels if concatenated else reach
        self.r = nn.Parameter(torch.randn(2 if segments else 1, 2 * self.reach - 1, d) * d**-0.5)

    def forward(self, size: int) -> Float[Tensor, "asking asked d"]:
        """Of every position to every other in panels of `size`: (panels * size, panels * size, d).

        What is further apart than the reach has the vector of its end (as Shaw et al. 2018 clip distances).
        """
        place = torch.arange(size * self.panels, device=self.r.device)
        panel, local = place // size, place if self.concatenated else place % size
        offsets = (local[None, :] - local[:, None] + self.reach - 1).clamp(0, 2 * self.reach - 2)
        if len(self.r) == 2:
            offsets = offsets + (panel[None, :] != panel[:, None]) * (2 * self.reach - 1)
        return self.r.flatten(0, 1).index_select(0, offsets.flatten()).unflatten(0, offsets.shape)


class RelativeSelfAttention(nn.Module):
    """MHA(X) = Concat[O_1, ..., O_h] W^O over the positions of all panels, with two-dimensional relative positions:
    o_p = sum_p' softmax_p'(q_p . (k_p' + r^W_{x'-x} + r^H_{y'-y}) / sqrt(d_k / h)) v_p' (guide Eq. 5 and 10).

    d_k and d_v are the widths of all heads together, d_k / h that of one, which scales the scores. Coordinates are
    panel-local, or with bias *concatenated* columns are those of t = [x, z]; with *none* there are no r. `forward`
    maps (B * panels, N, M, d) to (B * panels, N, M, d_v), for grids up to rows x cols.
    """

    def __init__(
        self,
        d: int,
        d_k: int,
        d_v: int,
        heads: int,
        rows: int,
        cols: int,
        *,
        panels: int = 1,
        bias: str = "panel",
        segments: bool = False,
    ) -> None:
        super().__init__()
        if min(d_k, d_v, heads) < 1 or d_k % heads or d_v % heads:
            raise ValueError(f"d_k and d_v must be multiples of the heads, got d_k {d_k}, d_v {d_v}, {heads} heads")
        self.heads, self.panels = heads, panels
        self.W_Q = new_filters(d_k, d, 1, 1)
        self.W_K = nn.Parameter(self.W_Q.detach().clone())
        self.W_V = new_filters(d_v, d, 1, 1)
        self.W_O = new_filters(d_v, d_v, 1, 1)
        self.r_H = self.r_W = None
        if bias != "none":
            apiece = d_k // heads
            self.r_H = RelativeEmbedding(apiece, rows, panels=panels, segments=segments)
            self.r_W = RelativeEmbedding(
                apiece, cols, panels=panels, segments=segments, concatenated=bias == "concatenated"
            )

    def forward(self, x: Picture) -> Projected:
        """(B * panels, N, M, d) -> (B * panels, N, M, d_v)."""
        rows, cols = x.shape[1:3]
        q, k = self._queries_and_keys(x)
        o = F.scaled_dot_product_attention(q, k, self._split_heads(convolve(x, self.W_V)), scale=1.0)
        return convolve(from_sequence(o.transpose(1, 2).flatten(2), self.panels, rows, cols), self.W_O)

    def attention_coefficients(self, x: Picture) -> Float[Tensor, "batch heads tokens tokens"]:
        """The attention weights of `forward`: (B * panels, N, M, d) -> (B, C, T, T), queries before keys."""
        return attention_coefficients(*self._queries_and_keys(x), scale=1.0)

    def _queries_and_keys(self, x: Picture) -> tuple[Tensor, Tensor]:
        """The queries and keys (B, C, T, e), whose products are the scores."""
        rows, cols = x.shape[1:3]
        q, k = (self._split_heads(convolve(x, weight)) for weight in (self.W_Q, self.W_K))
        q = q * q.shape[-1] ** -0.5
        if self.r_H is not None and self.r_W is not None:
            q, k = self._with_positions(q, k, self.r_H(rows).to(q.dtype), self.r_W(cols).to(q.dtype))
        return q, k

    def count_flops(self, x: Tensor) -> int:
        """The operations of Eq. 5 and 10; a multiply-add counts as two.

        q . r counts once for each row and column that a query meets. The names of rows and columns, which the
        computation multiplies besides, are no part of it.
        """
        stack, rows, cols, d = x.shape
        d_k, d_v, tokens = self.W_Q.shape[0], self.W_V.shape[0], self.panels * rows * cols
        products = d * (2 * d_k + d_v) + d_v * d_v + tokens * (d_k + d_v)
        if self.r_H is not None:
            products += d_k * self.panels * (rows + cols)
        return 2 * stack * rows * cols * products

    def _with_positions(self, q: Tensor, k: Tensor, r_H: Tensor, r_W: Tensor) -> tuple[Tensor, Tensor]:
        """Queries beside their relative logits towards every row and column, keys beside the name of theirs.

        A key names its row of its panel by a one among zeros, and its column, so that the product of both is
        q . (k + r^W + r^H): any attention kernel computes it, and no bias of tokens x tokens is ever held.
        """
        panels, rows, cols = self.panels, len(r_H) // self.panels, len(r_W) // self.panels
        grid = q.unflatten(2, (panels, rows, cols))
        # Positions of one row share their r: a batch of matrix products over the rows, and one over the columns.
        by_row = grid.permute(2, 3, 0, 1, 4, 5).reshape(panels * rows, -1, q.shape[-1]) @ r_H.transpose(1, 2)
        by_col = grid.permute(2, 4, 0, 1, 3, 5).reshape(panels * cols, -1, q.shape[-1]) @ r_W.transpose(1, 2)
        by_row = by_row.reshape(panels, rows, -1, self.heads, cols, panels * rows).permute(2, 3, 0, 1, 4, 5)
        by_col = by_col.reshape(panels, cols, -1, self.heads, rows, panels * cols).permute(2, 3, 0, 4, 1, 5)
        names_row = torch.eye(panels * rows, dtype=k.dtype, device=k.device).repeat_interleave(cols, 0)
        names_col = torch.eye(panels * cols, dtype=k.dtype, device=k.device).unflatten(0, (panels, 1, cols))
        names = torch.cat([names_row, names_col.expand(-1, rows, -1, -1).flatten(0, 2)], -1)
        return (
            torch.cat([q, by_row.flatten(2, 4), by_col.flatten(2, 4)], -1),
            torch.cat([k, names.expand(*k.shape[:2], -1, -1)], -1),
        )

    def _split_heads(self, x: Picture) -> Float[Tensor, "batch heads tokens apiece"]:
        """The channels of all positions by head."""
        return to_sequence(x, self.panels).unflatten(2, (self.heads, -1)).transpose(1, 2)


class AttentionAugmentedConvolution(nn.Module):
    """AAConv(X) = Concat[Conv(X), MHA(X)]: d_o - d_v channels of a convolution, then d_v of attention (Bello et al.
    2019, Section 3.3; guide).

    With a stride s the convolution is strided, and the attention runs over the input after 3x3 average pooling of
    stride s. `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o).
    """

    def __init__(self, n: int, m: int, heads: int, d_k: int, d_v: int, place: Place) -> None:
        super().__init__()
        if d_v >= place.d_o:
            raise ValueError(f"attention gives d_v of the d_o channels, the convolution the rest: {d_v} of {place.d_o}")
        self.stride, self.joined = place.stride, count_joined_panels(place)
        self.convolution = Convolution(n, m, replace(place, d_o=place.d_o - d_v))
        self.attention = RelativeSelfAttention(
            place.d,
            d_k,
            d_v,
            heads,
            *place.grid,
            panels=place.panels,
            bias=place.bias,
            segments=place.segments and place.panels > 1,
        )

    def forward(self, x: Picture) -> Float[Tensor, "stacked rows_out cols_out d_o"]:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        return torch.cat([self.convolution(x), self.attention(self._pool_input(x))], -1)

    def seam_attention(self, x: Picture) -> Float[Tensor, "stacked heads tokens tokens"]:
        """The attention across the seam: (B * 2, N, M, d) -> (B * 2, C, T, T)."""
        return select_seam_attention(self.attention.attention_coefficients(self._pool_input(x)))

    def _pool_input(self, x: Picture) -> Pooled:
        """The input of the attention, averaged over 3x3 windows where there is a stride."""
        if self.stride == 1:
            return x
        t = join_panels(x, self.joined).permute(0, 3, 1, 2)
        pooled = F.avg_pool2d(t, 3, self.stride, 1, count_include_pad=False)
        return split_panels(pooled.permute(0, 2, 3, 1), self.joined)


@dataclass(frozen=True)
class AttentionAugmented:
    """A convolution n x m and attention side by side; `kappa` and `upsilon` are d_k / d_o and d_v / d_o.

    Both widths are rounded to whole multiples of the heads, one a head at least. `segments` gives pairs in different
    panels relative positions of their own, and so needs the bias *panel*.
    """

    n: int = 3
    m: int = 3
    heads: int = 4
    kappa: float = 1.0
    upsilon: float = 0.5
    kind: str = field(default="attention_augmented", init=False)

    def __post_init__(self) -> None:
        if min(self.n, self.m, self.heads) < 1:
            raise ValueError(f"n, m and heads must be positive, got {self}")
        if self.kappa <= 0 or not 0 < self.upsilon < 1:
            raise ValueError(f"kappa must be positive and upsilon between 0 and 1, got {self}")

    def build(self, place: Place) -> AttentionAugmentedConvolution:
        """The operator for a place."""
        if place.segments:
            require_supported(place, self.kind, bias=("panel",))
        d_k, d_v = (self.heads * max(1, round(part * place.d_o / self.heads)) for part in (self.kappa, self.upsilon))
        return AttentionAugmentedConvolution(self.n, self.m, self.heads, d_k, d_v, place)
