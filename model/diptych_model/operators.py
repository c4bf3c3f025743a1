"""Self Attentive Convolutions: SAC (section 3 of the MSAC paper) and their multiscale form MSAC (section 4).

Pictures are (B, N, M, d) as in the paper: batch, rows, columns, channels; a sentence has one row (section 5). Several
panels of one picture are stacked in the batch axis, (B * panels, N, M, d): attention runs over the positions of all
panels, windows stay within one unless `open_seam` lays the panels side by side for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.attention import BIASES, RelativeBias, attention_coefficients, relative_attention
from diptych_model.convolution import convolve, new_filters
from diptych_model.panels import from_sequence, select_seam_attention, to_sequence

Queries = Float[Tensor, "batch heads tokens d_a"]
Values = Float[Tensor, "batch heads tokens d_o"]
Picture = Float[Tensor, "stacked rows cols d"]
Projected = Float[Tensor, "stacked rows_out cols_out d_out"]
Coefficients = Float[Tensor, "batch heads tokens tokens"]


@dataclass(frozen=True)
class Scale:
    """One SAC of an MSAC: n x m filters, C heads of key width d_a and value width d_o.

    `stride`, `dilation` and `groups` are those of the filters H_Q, H_K, H_V and H_R. `separable`, which the paper does
    not have, factors every filter into one depthwise n x m filter set, shared by all four, and a 1x1 filter each: far
    fewer products for a large window. `cascade` puts that many n x m filter sets in a row (section 6: a 5x5 window as a
    cascade of two 3x3), all but the last shared by the four. `residual_convolution` adds the branch H_R, which is
    optional in the paper.
    """

    n: int = 1
    m: int = 1
    heads: int = 4
    d_a: int = 16
    d_o: int = 16
    separable: bool = False
    residual_convolution: bool = False
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    cascade: int = 1

    def __post_init__(self) -> None:
        sizes = (self.n, self.m, self.heads, self.d_a, self.d_o, self.stride, self.dilation, self.groups, self.cascade)
        if min(sizes) < 1:
            raise ValueError(
                f"n, m, heads, d_a, d_o, stride, dilation, groups and cascade must be positive, got {self}"
            )
        if self.separable and self.groups > 1:
            raise ValueError(f"a separable filter is depthwise already; leave groups at 1, got {self.groups}")
        if any(width % self.groups for width in (self.heads * self.d_a, self.heads * self.d_o)):
            raise ValueError(
                f"{self.groups} groups need heads * d_a and heads * d_o to be multiples of {self.groups}, "
                f"got {self.heads * self.d_a} and {self.heads * self.d_o}"
            )
        if self.residual_convolution and self.d_o % self.groups:
            raise ValueError(f"{self.groups} groups need d_o to be a multiple of them for H_R, got {self.d_o}")

    def grid(self, rows: int, cols: int) -> tuple[int, int]:
        """Positions after the stride: ceil(N / s), ceil(M / s)."""
        return -(-rows // self.stride), -(-cols // self.stride)


class SAC(nn.Module):
    """Multi-head self attentive convolution over panels of up to N x M positions (sections 2 and 3, Eq. 1-4).

    However many heads there are, H_Y reduces them to d_o channels; several SACs of one head keep more.
    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o). `bias` is *panel*,
    *concatenated* or *none* (see `RelativeBias`); `causal` lets a position see only earlier ones, in the windows too.
    """

    def __init__(
        self,
        d: int,
        rows: int,
        cols: int,
        scale: Scale,
        *,
        panels: int = 1,
        bias: str = "panel",
        segments: bool = False,
        open_seam: bool = False,
        causal: bool = False,
    ) -> None:
        super().__init__()
        if bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(BIASES)}, got {bias!r}")
        if segments and bias == "none":
            raise ValueError("a relative segment lives in the bias: set bias = 'panel', or segments = False")
        self.d, self.scale, self.panels, self.causal = d, scale, panels, causal
        self.joined = panels if open_seam else 1
        if d % scale.groups:
            raise ValueError(f"{scale.groups} groups need d to be a multiple of them, got {d} channels")
        heads, d_a, d_o, window = scale.heads, scale.d_a, scale.d_o, (scale.n, scale.m)
        before = scale.cascade if scale.separable else scale.cascade - 1
        self.before = nn.ParameterList(new_filters(d, 1 if scale.separable else d, *window) for _ in range(before))
        taken, window = d // scale.groups, (1, 1) if scale.separable else window
        self.H_Q = new_filters(heads * d_a, taken, *window)
        # Keys start as queries do: attention begins by looking for what is alike, in the other panel above all.
        self.H_K = nn.Parameter(self.H_Q.detach().clone())
        self.H_V = new_filters(heads * d_o, taken, *window)
        self.H_R = new_filters(d_o, taken, *window) if scale.residual_convolution else None
        self.H_Y = new_filters(d_o, heads * d_o, 1, 1)
        self.H_Y_R = new_filters(d_o, 2 * d_o, 1, 1) if scale.residual_convolution else None
        self.bias = None
        if bias != "none" or causal:
            self.bias = RelativeBias(
                heads,
                *scale.grid(rows, cols),
                panels=panels,
                segments=segments,
                concatenated=bias == "concatenated",
                causal=causal,
            )
            self.bias.table.requires_grad_(bias != "none")

    def project(self, x: Picture) -> tuple[Queries, Queries, Values, Projected | None]:
        """Eq. 1: q, k (B, C, T, d_a) and v (B, C, T, d_o) over the positions of all panels, and x * H_R where there
        is one.
        """
        heads, d_a, d_o = self.scale.heads, self.scale.d_a, self.scale.d_o
        packed = self.project_packed(x)
        q, k, v, *beside = packed.split([heads * d_a, heads * d_a, heads * d_o, *([d_o] * (self.H_R is not None))], -1)
        queries, keys, values = (_split_heads(part, heads, self.panels) for part in (q, k, v))
        return queries, keys, values, beside[0] if beside else None

    def project_packed(self, x: Picture) -> Projected:
        """All projections side by side in the channels: x * H_Q, x * H_K, x * H_V and, where there is one, x * H_R.

        (B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), C (2 d_a + d_o) [+ d_o]).
        """
        if x.shape[-1] != self.d:
            raise ValueError(
                f"this SAC takes {self.d} channels, the picture has {x.shape[-1]} (shape {tuple(x.shape)})"
            )
        scale, last = self.scale, len(self.before) - 1
        for place, weight in enumerate(self.before):
            stride, groups = (scale.stride if place == last else 1, self.d) if scale.separable else (1, 1)
            x = self._convolve_windows(x, weight, stride, groups)
        branches: list[Tensor] = [self.H_Q, self.H_K, self.H_V]
        if self.H_R is not None:
            branches.append(self.H_R)
        stride = 1 if scale.separable else scale.stride
        if scale.groups == 1:
            return self._convolve_windows(x, torch.cat(branches), stride, 1)
        return torch.cat([self._convolve_windows(x, weight, stride, scale.groups) for weight in branches], -1)

    def reduce(self, y: Values, beside: Projected | None, grid: tuple[int, int]) -> Projected:
        """Join the heads by H_Y (section 2.1) and, with H_R, both branches by the second H_Y (section 3)."""
        gamma = convolve(from_sequence(y.transpose(1, 2).flatten(2), self.panels, *grid), self.H_Y)
        if beside is None or self.H_Y_R is None:
            return gamma
        return convolve(torch.cat([gamma, beside], -1), self.H_Y_R)

    def forward(self, x: Picture) -> Projected:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        grid = self.scale.grid(*x.shape[1:3])
        q, k, v, beside = self.project(x)
        return self.reduce(relative_attention(q, k, v, None if self.bias is None else self.bias(*grid)), beside, grid)

    def attention_coefficients(self, x: Picture) -> Coefficients:
        """a of Eq. 3 by which `forward` weighs the values: (B * panels, N, M, d) -> (B, C, T, T), queries first."""
        q, k, _, _ = self.project(x)
        return attention_coefficients(q, k, None if self.bias is None else self.bias(*self.scale.grid(*x.shape[1:3])))

    def _convolve_windows(self, x: Picture, weight: Tensor, stride: int, groups: int) -> Projected:
        """One convolution with the dilation, the seam and the causality of this SAC."""
        return convolve(
            x,
            weight,
            stride=stride,
            dilation=self.scale.dilation,
            groups=groups,
            joined=self.joined,
            causal=self.causal,
        )


class MSAC(nn.Module):
    """L parallel SACs of different filter sizes, concatenated and reduced by H_phi (section 4); one attention call for
    all heads.

    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_phi); every scale has the
    same stride s. The switches are those of `SAC`.
    """

    def __init__(
        self,
        d: int,
        rows: int,
        cols: int,
        scales: Sequence[Scale],
        *,
        d_phi: int | None = None,
        panels: int = 1,
        bias: str = "panel",
        segments: bool = False,
        open_seam: bool = False,
        causal: bool = False,
    ) -> None:
        super().__init__()
        if not scales:
            raise ValueError("MSAC needs at least one scale, got none")
        if len({scale.stride for scale in scales}) > 1:
            raise ValueError(
                f"the scales are concatenated, so they need one stride, got {[scale.stride for scale in scales]}"
            )
        sacs = (
            SAC(d, rows, cols, scale, panels=panels, bias=bias, segments=segments, open_seam=open_seam, causal=causal)
            for scale in scales
        )
        self.sacs = cast(Sequence[SAC], nn.ModuleList(sacs))
        self.H_phi = new_filters(scales[-1].d_o if d_phi is None else d_phi, sum(scale.d_o for scale in scales), 1, 1)

    def forward(self, x: Picture) -> Projected:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_phi)."""
        grid = self.sacs[0].scale.grid(*x.shape[1:3])
        projected = [sac.project(x) for sac in self.sacs]
        # All have a bias or none has; with tables side by side the dense one is made once and held once.
        biases = [sac.bias for sac in self.sacs if sac.bias is not None]
        widths = {(sac.scale.d_a, sac.scale.d_o) for sac in self.sacs}
        heads = [sac.scale.heads for sac in self.sacs]
        dense = biases[0](*grid, torch.cat([bias.table for bias in biases], 1)) if biases else None
        if len(widths) == 1:
            q, k, v = (torch.cat(parts, 1) for parts in zip(*(p[:3] for p in projected), strict=True))
            attended = relative_attention(q, k, v, dense).split(heads, 1)
        else:
            apart = [None] * len(heads) if dense is None else dense.split(heads)
            attended = [relative_attention(*p[:3], bias) for p, bias in zip(projected, apart, strict=True)]
        gammas = [sac.reduce(y, p[3], grid) for sac, y, p in zip(self.sacs, attended, projected, strict=True)]
        return convolve(torch.cat(gammas, -1), self.H_phi)

    def seam_attention(self, x: Picture) -> Float[Tensor, "stacked heads tokens tokens"]:
        """The attention across the seam, all heads of all scales: (B * 2, N, M, d) -> (B * 2, C, T, T)."""
        return torch.cat([select_seam_attention(sac.attention_coefficients(x)) for sac in self.sacs], 1)


def _split_heads(x: Picture, heads: int, panels: int) -> Values:
    """The channels of all positions by head: (B * panels, N, M, C * e) -> (B, C, panels * N * M, e)."""
    return to_sequence(x, panels).unflatten(2, (heads, -1)).transpose(1, 2)
