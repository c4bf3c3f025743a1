"""Self Attentive Convolutions: SAC (section 3 of the MSAC paper) and their multiscale form MSAC (section 4).

Pictures are (B, N, M, d) as in the paper: batch, rows, columns, channels. Several panels of one picture are stacked in
the batch axis, (B * panels, N, M, d): windows then never cross a seam, while attention runs over the positions of all
panels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diptych_model.attention import RelativeBias, relative_attention


def convolve(x: Tensor, weight: Tensor, *, groups: int = 1) -> Tensor:
    """x * H of Definitions 1 and 2: zero-padded, stride one, centred at the *ceiling* of half the filter.

    Shapes: x (B, N, M, d), weight (f, d / groups, n, m); returns (B, N, M, f). Odd windows are centred, even ones
    reach one further down and to the right. A 1x1 filter is a matrix product (Lemma 1).
    """
    f, d, n, m = weight.shape
    if d * groups != x.shape[-1]:
        raise ValueError(
            f"the filter takes {d * groups} channels, the picture has {x.shape[-1]} (shape {tuple(x.shape)})"
        )
    if n == m == groups == 1:
        return F.linear(x, weight.view(f, d))
    channels_first = x.permute(0, 3, 1, 2)
    if n % 2 and m % 2:
        y = F.conv2d(channels_first, weight, padding=(n // 2, m // 2), groups=groups)
    else:
        padded = F.pad(channels_first, ((m + 1) // 2 - 1, m // 2, (n + 1) // 2 - 1, n // 2))
        y = F.conv2d(padded, weight, groups=groups)
    return y.permute(0, 2, 3, 1)


@dataclass(frozen=True)
class Scale:
    """One SAC of an MSAC: an n x m filter, C heads of key width d_a and value width d_o.

    `separable` factors every filter into one depthwise n x m filter bank, shared by H_Q, H_K, H_V and H_R, and a 1x1
    filter each: far fewer products for a large window. `residual_convolution` adds the branch H_R.
    """

    n: int = 1
    m: int = 1
    heads: int = 4
    d_a: int = 16
    d_o: int = 16
    separable: bool = False
    residual_convolution: bool = False

    def __post_init__(self) -> None:
        if min(self.n, self.m, self.heads, self.d_a, self.d_o) < 1:
            raise ValueError(f"n, m, heads, d_a and d_o must be positive, got {self}")


class SAC(nn.Module):
    """Multi-head 2D self attentive convolution over panels of N x M positions (sections 2 and 3, Eq. 1-4).

    `forward` takes and returns (B * panels, N, M, ...): d channels in, d_o out.
    """

    def __init__(
        self, d: int, rows: int, cols: int, scale: Scale, *, panels: int = 1, bias: bool = True, segments: bool = False
    ) -> None:
        super().__init__()
        self.scale, self.panels = scale, panels
        window = (1, 1) if scale.separable else (scale.n, scale.m)
        heads, d_a, d_o = scale.heads, scale.d_a, scale.d_o
        self.depthwise = _filters(d, 1, scale.n, scale.m) if scale.separable else None
        self.H_Q = _filters(heads * d_a, d, *window)
        # Keys start as queries do: attention begins by looking for what is alike, in the other panel above all.
        self.H_K = nn.Parameter(self.H_Q.detach().clone())
        self.H_V = _filters(heads * d_o, d, *window)
        self.H_R = _filters(d_o, d, *window) if scale.residual_convolution else None
        self.H_Y = _filters(d_o, heads * d_o, 1, 1)
        self.H_Y_R = _filters(d_o, 2 * d_o, 1, 1) if scale.residual_convolution else None
        self.bias = RelativeBias(heads, rows, cols, panels=panels, segments=segments)
        if not bias:
            self.bias.table.requires_grad_(False)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Eq. 1: q, k (B, C, T, d_a) and v (B, C, T, d_o) over the positions of all panels, and x * H_R where there
        is one.
        """
        scale = self.scale
        branches: list[Tensor] = [self.H_Q, self.H_K, self.H_V]
        if self.H_R is not None:
            branches.append(self.H_R)
        if self.depthwise is not None:
            x = convolve(x, self.depthwise, groups=x.shape[-1])
        parts = convolve(x, torch.cat(branches)).split([len(w) for w in branches], -1)
        q, k, v = (_heads(part, scale.heads, self.panels) for part in parts[:3])
        return q, k, v, parts[3] if self.H_R is not None else None

    def reduce(self, y: Tensor, beside: Tensor | None, shape: Sequence[int]) -> Tensor:
        """Join the heads by H_Y (section 2.1) and, with H_R, both branches by the second H_Y (section 3)."""
        y = y.transpose(1, 2).reshape(*shape[:3], -1)
        y = convolve(y, self.H_Y)
        return y if beside is None or self.H_Y_R is None else convolve(torch.cat([y, beside], -1), self.H_Y_R)

    def forward(self, x: Tensor) -> Tensor:
        """(B * panels, N, M, d) -> (B * panels, N, M, d_o)."""
        q, k, v, beside = self.project(x)
        return self.reduce(relative_attention(q, k, v, self.bias(*x.shape[1:3])), beside, x.shape)


class MSAC(nn.Module):
    """L parallel SACs of different filter sizes, concatenated and reduced by H_phi (section 4); one attention call for
    all heads.

    `forward` takes and returns (B * panels, N, M, ...): d channels in, `d_phi` out.
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
        bias: bool = True,
        segments: bool = False,
    ) -> None:
        super().__init__()
        if not scales:
            raise ValueError("MSAC needs at least one scale, got none")
        sacs = (SAC(d, rows, cols, scale, panels=panels, bias=bias, segments=segments) for scale in scales)
        self.sacs = cast(Sequence[SAC], nn.ModuleList(sacs))
        self.H_phi = _filters(d_phi or scales[-1].d_o, sum(scale.d_o for scale in scales), 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B * panels, N, M, d) -> (B * panels, N, M, d_phi)."""
        projected = [sac.project(x) for sac in self.sacs]
        biases = [sac.bias(*x.shape[1:3]) for sac in self.sacs]
        widths = {(sac.scale.d_a, sac.scale.d_o) for sac in self.sacs}
        if len(widths) == 1:
            q, k, v = (torch.cat(parts, 1) for parts in zip(*(p[:3] for p in projected), strict=True))
            attended = relative_attention(q, k, v, torch.cat(biases)).split([s.scale.heads for s in self.sacs], 1)
        else:
            attended = [relative_attention(*p[:3], b) for p, b in zip(projected, biases, strict=True)]
        gammas = [sac.reduce(y, p[3], x.shape) for sac, y, p in zip(self.sacs, attended, projected, strict=True)]
        return convolve(torch.cat(gammas, -1), self.H_phi)


def _heads(x: Tensor, heads: int, panels: int) -> Tensor:
    """(B * panels, N, M, C * e) -> (B, C, panels * N * M, e)."""
    stacked, rows, cols, width = x.shape
    return x.reshape(stacked // panels, panels * rows * cols, heads, width // heads).transpose(1, 2)


def _filters(out: int, d: int, n: int, m: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(out, d, n, m) * (d * n * m) ** -0.5)
