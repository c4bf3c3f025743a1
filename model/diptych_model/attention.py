"""Attention over positions with a relative positional bias: Eq. 2-4 of the MSAC paper, for tokens in any number of
panels.

Our letters and the paper's stand in one table in `diptych_model.__init__`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

EXPORT_NODE = "diptych::RelPosAttention"


def relative_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """y_i = sum_r softmax_r(q_i . k_r / sqrt(d_a) + b_ir) v_r  (Eq. 2-4): every position attends every position.

    Shapes: q and k (B, C, T, d_a), v (B, C, T, d_o), bias (C, T, T) with queries before keys; returns (B, C, T, d_o).
    The softmax runs over the *key* positions. In an exported graph this is one node, `diptych::RelPosAttention`.
    """
    if q.shape != k.shape or q.shape[:3] != v.shape[:3]:
        raise ValueError(
            f"queries, keys and values must agree: q and k (B, C, T, d_a), v (B, C, T, d_o); "
            f"got q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        )
    if tuple(bias.shape) != (q.shape[1], q.shape[2], q.shape[2]):
        raise ValueError(
            f"the bias must be (heads, T, T) = {(q.shape[1], q.shape[2], q.shape[2])}, got {tuple(bias.shape)}; "
            "build it for this grid with RelativeBias"
        )
    if torch.onnx.is_in_onnx_export():
        return torch.onnx.ops.symbolic(EXPORT_NODE, (q, k, v, bias), dtype=q.dtype, shape=v.shape, version=1)
    if q.is_cuda:
        # cuDNN's attention returns NaN gradients for some lengths when a mask is given (pytorch #196678).
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
    # On the CPU a bias that learns leaves torch only its slowest kernel; written out it trains 1.5 times faster in
    # bfloat16.
    scores = (q * q.shape[-1] ** -0.5).contiguous() @ k.contiguous().transpose(-1, -2) + bias.to(q.dtype)
    return scores.softmax(-1) @ v.contiguous()


class RelativeBias(nn.Module):
    """The bias b[|i-r|, |j-t|] of Eq. 3 as a dense (C, T, T) tensor over one panel or several.

    With one panel this is the paper's. With more, tokens are ordered panel by panel and coordinates are panel-local;
    `segments=True` (the *relative* segment augmentation) learns one table for pairs within a panel and another for
    pairs across the seam, so that the network knows "same picture" from "other picture" yet not which panel is first.
    """

    def __init__(self, heads: int, rows: int, cols: int, *, panels: int = 1, segments: bool = False) -> None:
        super().__init__()
        if min(heads, rows, cols, panels) < 1:
            raise ValueError(f"heads, rows, cols and panels must be positive, got {(heads, rows, cols, panels)}")
        self.panels = panels
        self.table = nn.Parameter(torch.zeros(2 if segments else 1, heads, rows, cols))

    def forward(self, rows: int, cols: int) -> Tensor:
        """Return the bias (C, T, T) for a grid of rows x cols up to the table's, with T = panels * rows * cols."""
        kinds, heads, most_rows, most_cols = self.table.shape
        if rows > most_rows or cols > most_cols:
            raise ValueError(
                f"the bias table reaches {most_rows} x {most_cols} positions, got a grid of {rows} x {cols}"
            )
        down = _distances(rows, self.table.device)
        across = _distances(cols, self.table.device)
        # Two one-dimensional gathers instead of one over T*T: faster, and ONNX Runtime folds them (ONNX.md, 1f).
        grid = self.table.index_select(2, down.flatten()).unflatten(2, (rows, rows))
        grid = grid.index_select(4, across.flatten()).unflatten(4, (cols, cols))
        local = grid.permute(0, 1, 2, 4, 3, 5).reshape(kinds, heads, rows * cols, rows * cols)
        if self.panels == 1:
            return local[0]
        same, other = local[0], local[-1]
        lines = [torch.cat([same if a == b else other for b in range(self.panels)], -1) for a in range(self.panels)]
        return torch.cat(lines, -2)


def _distances(size: int, device: torch.device) -> Tensor:
    steps = torch.arange(size, device=device)
    return (steps[:, None] - steps[None, :]).abs()
