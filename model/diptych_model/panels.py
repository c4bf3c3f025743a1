"""t = [x, z] (section 6.1 of the MSAC paper): how the panels of a picture lie in the batch, in columns, in a sequence.

Panels are stacked in the batch axis, (B * panels, N, M, d), each picture's next to each other. That is where every
operator takes and leaves them; what it does to them in between is told by these names.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Stacked = Float[Tensor, "stacked rows cols d"]


def to_sequence(x: Stacked, panels: int) -> Float[Tensor, "batch tokens d"]:
    """The positions of all panels in one sequence: (B * panels, N, M, d) -> (B, T, d), T = panels * N * M.

    They come panel by panel, each row by row.
    """
    _require_whole(x, panels)
    _, rows, cols, d = x.shape
    return x.reshape(-1, panels * rows * cols, d)


def from_sequence(tokens: Float[Tensor, "batch tokens d"], panels: int, rows: int, cols: int) -> Stacked:
    """The panels of a sequence, the inverse of `to_sequence`: (B, T, d) -> (B * panels, N, M, d)."""
    return tokens.reshape(-1, rows, cols, tokens.shape[-1])


def join_panels(x: Stacked, panels: int) -> Float[Tensor, "batch rows joined d"]:
    """The panels side by side, the paper's t: (B * panels, N, M, d) -> (B, N, panels * M, d)."""
    _require_whole(x, panels)
    _, rows, cols, d = x.shape
    return x.reshape(-1, panels, rows, cols, d).transpose(1, 2).reshape(-1, rows, panels * cols, d)


def split_panels(t: Float[Tensor, "batch rows joined d"], panels: int) -> Stacked:
    """The panels apart, the inverse of `join_panels`: (B, N, panels * M, d) -> (B * panels, N, M, d)."""
    _, rows, joined, d = t.shape
    return t.reshape(-1, rows, panels, joined // panels, d).transpose(1, 2).reshape(-1, rows, joined // panels, d)


def select_seam_attention(
    coefficients: Float[Tensor, "batch heads queries keys"],
) -> Float[Tensor, "stacked heads panel_queries panel_keys"]:
    """The attention of each panel to the other one: (B, C, 2 T, 2 T) -> (B * 2, C, T, T)."""
    quarters = coefficients.unflatten(3, (2, -1)).unflatten(2, (2, -1))
    return torch.stack([quarters[:, :, 0, :, 1], quarters[:, :, 1, :, 0]], 1).flatten(0, 1)


def _require_whole(x: Stacked, panels: int) -> None:
    if x.shape[0] % panels:
        raise ValueError(f"pictures of {panels} panels are stacked {panels} by {panels}, got {x.shape[0]} panels")
