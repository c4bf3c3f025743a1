"""Convolution as the MSAC paper defines it (Definitions 1 and 2, Lemma 1), strided, dilated and grouped."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.panels import join_panels, split_panels


def convolve(
    x: Float[Tensor, "stacked rows cols d"],
    weight: Float[Tensor, "f d_in_group n m"],
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    joined: int = 1,
    causal: bool = False,
) -> Float[Tensor, "stacked rows_out cols_out f"]:
    """x * H: c[i, j, f] = sum_kl x[i - ceil(n/2) + k, j - ceil(m/2) + l] . H[f, k, l], zero outside (Def. 1 and 2).

    Odd windows are centred, even ones reach one further down and to the right; a 1x1 filter is a matrix product
    (Lemma 1). With a stride s the positions 1, 1 + s, ... are kept, ceil(N / s) of them; with a dilation the offsets
    from the centre are multiplied. A *causal* window ends at its position instead of being centred on it. `joined`
    panels lie side by side while the windows pass, so that these cross the seam; with 1 they never do.

    Shapes: x (B, N, M, d), weight (f, d / groups, n, m); returns (B, ceil(N / s), ceil(M / s), f). Raises `ValueError`
    if the channels disagree, or the columns of joined panels are not a multiple of the stride.
    """
    f, d, n, m = weight.shape
    if d * groups != x.shape[-1]:
        raise ValueError(
            f"the filter takes {d * groups} channels, the picture has {x.shape[-1]} (shape {tuple(x.shape)})"
        )
    if joined > 1 and (n, m) != (1, 1):
        if x.shape[2] % stride:
            raise ValueError(
                f"windows of stride {stride} would not meet the seam between panels of {x.shape[2]} columns: "
                f"give panels a multiple of {stride} columns, or close the seam"
            )
        side = convolve(join_panels(x, joined), weight, stride=stride, dilation=dilation, groups=groups, causal=causal)
        return split_panels(side, joined)
    if n == m == groups == 1:
        return F.linear(x[:, ::stride, ::stride] if stride > 1 else x, weight.view(f, d))
    channels_first = x.permute(0, 3, 1, 2)
    if n % 2 and m % 2 and not causal:
        padding = (n // 2 * dilation, m // 2 * dilation)
        y = F.conv2d(channels_first, weight, None, stride, padding, dilation, groups)
    else:
        (above, below), (left, right) = (_window_reach(size, dilation, causal) for size in (n, m))
        padded = F.pad(channels_first, (left, right, above, below))
        y = F.conv2d(padded, weight, None, stride, 0, dilation, groups)
    return y.permute(0, 2, 3, 1)


def new_filters(out: int, d: int, n: int, m: int) -> nn.Parameter:
    """New filters (out, d, n, m), each answering a picture of unit variance with unit variance."""
    return nn.Parameter(torch.randn(out, d, n, m) * (d * n * m) ** -0.5)


def _window_reach(size: int, dilation: int, causal: bool) -> tuple[int, int]:
    """How many positions a window reaches before and after its own."""
    before = size - 1 if causal else (size + 1) // 2 - 1
    return before * dilation, (size - 1 - before) * dilation
