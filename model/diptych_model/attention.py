"""Attention over positions with a relative positional bias: Eq. 2-4 of the MSAC paper, for tokens in any number of
panels.

Our letters and the paper's stand in one table in `diptych_model.__init__`.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

BIASES = ("panel", "concatenated", "none")


def relative_attention(
    q: Float[Tensor, "batch heads tokens d_a"],
    k: Float[Tensor, "batch heads tokens d_a"],
    v: Float[Tensor, "batch heads tokens d_o"],
    bias: Float[Tensor, "heads tokens tokens"] | None = None,
) -> Float[Tensor, "batch heads tokens d_o"]:
    """y_i = sum_r softmax_r(q_i . k_r / sqrt(d_a) + b_ir) v_r  (Eq. 2-4): every position attends every position.

    Shapes: q and k (B, C, T, d_a), v (B, C, T, d_o), bias (C, T, T) with queries before keys or none; returns
    (B, C, T, d_o). The softmax runs over the *key* positions.
    """
    if q.shape != k.shape or q.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"queries, keys and values must agree: q and k (B, C, T, d_a), v (B, C, T, d_o); "
            f"got q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        )
    if bias is None:
        return F.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v.contiguous())
    if tuple(bias.shape) != (q.shape[1], q.shape[2], q.shape[2]):
        raise ValueError(
            f"the bias must be (heads, T, T) = {(q.shape[1], q.shape[2], q.shape[2])}, got {tuple(bias.shape)}; "
            "build it for this grid with RelativeBias"
        )
    mask = bias.to(q.dtype)[None]
    if q.is_cuda:
        # cuDNN's attention returns NaN gradients for some lengths when a mask is given (pytorch #196678).
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    if not torch.is_grad_enabled():
        # Nothing to remember: the kernel goes over the keys block by block and never holds the scores, if the mask has
        # four axes and d_a = d_o; otherwise torch takes its plainest one.
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    # On the CPU a bias that learns leaves torch only its slowest kernel; written out it trains 1.5 times faster in
    # bfloat16.
    return attention_coefficients(q, k, bias) @ v


def attention_coefficients(
    q: Float[Tensor, "batch heads queries d_a"],
    k: Float[Tensor, "batch heads keys d_a"],
    bias: Float[Tensor, "heads queries keys"] | None = None,
    *,
    scale: float | None = None,
) -> Float[Tensor, "batch heads queries keys"]:
    """The share of each key's value that a query takes: a_ir = softmax_r(q_i . k_r / sqrt(d_a) + b_ir) (Eq. 2-3).

    The sums over the keys are one. Section 1 of the MSAC paper calls its softmax column-wise, but only one over the
    keys makes every y a convex combination of the values, as it says. `scale` in the place of 1 / sqrt(d_a).
    """
    scores = q * (q.shape[-1] ** -0.5 if scale is None else scale) @ k.transpose(-1, -2)
    return (scores if bias is None else scores + bias.to(q.dtype)).softmax(-1)


class RelativeBias(nn.Module):
    """The bias b[|i-r|, |j-t|] of Eq. 3 as a dense (C, T, T) tensor over one panel or several.

    Tokens are ordered panel by panel. Coordinates are panel-local, or with `concatenated` those of t = [x, z], as in
    the paper; with one panel both are Eq. 3. `segments` (the *relative* segment augmentation, which the paper does not
    have: its b is one table) learns one table for pairs within a panel and another for pairs across the seam, so that
    the network knows "same picture" from "other picture" yet not which panel is first. `causal` forbids every position
    the later ones: there the bias is -inf.
    """

    def __init__(
        self,
        heads: int,
        rows: int,
        cols: int,
        *,
        panels: int = 1,
        segments: bool = False,
        concatenated: bool = False,
        causal: bool = False,
    ) -> None:
        super().__init__()
        if min(heads, rows, cols, panels) < 1:
            raise ValueError(f"heads, rows, cols and panels must be positive, got {(heads, rows, cols, panels)}")
        if segments and concatenated:
            raise ValueError(
                "a bias over the columns of t = [x, z] has one table and no relative segment: use one or the other"
            )
        self.panels, self.concatenated, self.causal = panels, concatenated, causal
        reach = cols * panels if concatenated else cols
        self.table = nn.Parameter(torch.zeros(2 if segments else 1, heads, rows, reach))

    def forward(
        self, rows: int, cols: int, table: Float[Tensor, "kinds all_heads rows cols"] | None = None
    ) -> Float[Tensor, "all_heads tokens tokens"]:
        """Return the bias (C, T, T) for panels of rows x cols, with T = panels * rows * cols.

        What is further apart than the table reaches has its last entry (as Shaw et al. 2018 clip distances). `table` in
        the place of its own: those of several operators alike but for their heads, side by side.
        """
        table = self.table if table is None else table
        kinds, heads, most_rows, reach = table.shape
        joined = self.panels if self.concatenated else 1
        down, across = (
            _distance_matrix(rows, most_rows, table.device),
            _distance_matrix(joined * cols, reach, table.device),
        )
        # Two one-dimensional gathers instead of one over T*T: faster, and ONNX Runtime folds them. One
        # name for every step, so that no two of the last size are held besides the result.
        grid = table.index_select(2, down.flatten()).unflatten(2, (rows, rows))
        grid = grid.index_select(4, across.flatten())
        grid = grid.unflatten(4, (joined, cols, joined, cols))
        # (kind, head, i, r, panel, j, panel, t) -> (kind, head, panel, i, j, panel, r, t)
        grid = grid.permute(0, 1, 4, 2, 5, 6, 3, 7).reshape(kinds, heads, joined * rows * cols, joined * rows * cols)
        if joined < self.panels:
            places = torch.arange(self.panels, device=table.device)
            other = ((places[:, None] != places) & (kinds > 1)).long().flatten()
            grid = grid.index_select(0, other).unflatten(0, (self.panels, self.panels))
            # (panel, panel, head, t, t) -> (head, panel, t, panel, t)
            grid = grid.permute(2, 0, 3, 1, 4).reshape(1, heads, self.panels * rows * cols, self.panels * rows * cols)
        return self._mask_later(grid[0])

    def _mask_later(self, bias: Tensor) -> Tensor:
        """The bias with -inf at later positions, where it is causal."""
        if not self.causal:
            return bias
        later = torch.ones(bias.shape[1:], dtype=torch.bool, device=bias.device).triu(1)
        return bias.masked_fill(later, -torch.inf)


def _distance_matrix(size: int, reach: int, device: torch.device) -> Tensor:
    """The distance between every two positions, (size, size), less than `reach`."""
    steps = torch.arange(size, device=device)
    distances = (steps[:, None] - steps[None, :]).abs()
    return distances if size <= reach else distances.clamp(max=reach - 1)
