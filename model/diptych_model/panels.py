"""t = [x, z] (section 6.1 of the MSAC paper): how the panels of a picture lie in the batch, in columns, in a sequence.

Panels are stacked in the batch axis, (B * panels, N, M, d), each picture's next to each other. That is where every
operator takes and leaves them; what it does to them in between is told by these names.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Stacked = Float[Tensor, "stacked rows cols d"]


def sequence(x: Stacked, panels: int) -> Float[Tensor, "batch tokens d"]:
    """(B * panels, N, M, d) -> (B, T, d), T = panels * N * M: panel by panel, each row by row."""
    _require_whole(x, panels)
    _, rows, cols, d = x.shape
    return x.reshape(-1, panels * rows * cols, d)


def stacked(tokens: Float[Tensor, "batch tokens d"], panels: int, rows: int, cols: int) -> Stacked:
    """(B, T, d) -> (B * panels, N, M, d): the inverse of `sequence`."""
    return tokens.reshape(-1, rows, cols, tokens.shape[-1])


def beside(x: Stacked, panels: int) -> Float[Tensor, "batch rows joined d"]:
    """(B * panels, N, M, d) -> (B, N, panels * M, d): the paper's t, one picture with a seam in it."""
    _require_whole(x, panels)
    _, rows, cols, d = x.shape
    return x.reshape(-1, panels, rows, cols, d).transpose(1, 2).reshape(-1, rows, panels * cols, d)


def apart(t: Float[Tensor, "batch rows joined d"], panels: int) -> Stacked:
    """(B, N, panels * M, d) -> (B * panels, N, M, d): the inverse of `beside`."""
    _, rows, joined, d = t.shape
    return t.reshape(-1, rows, panels, joined // panels, d).transpose(1, 2).reshape(-1, rows, joined // panels, d)


def opposite(x: Stacked) -> Stacked:
    """(B * 2, N, M, d) -> the same shape: in each panel's place the other panel of its picture."""
    _require_whole(x, 2)
    _, rows, cols, d = x.shape
    return x.reshape(-1, 2, rows, cols, d).flip(1).reshape(-1, rows, cols, d)


def facing(
    coefficients: Float[Tensor, "batch heads queries keys"],
) -> Float[Tensor, "stacked heads panel_queries panel_keys"]:
    """(B, C, 2 T, 2 T) -> (B * 2, C, T, T): of attention over both panels what each looks at in the opposite one."""
    quarters = coefficients.unflatten(3, (2, -1)).unflatten(2, (2, -1))
    return torch.stack([quarters[:, :, 0, :, 1], quarters[:, :, 1, :, 0]], 1).flatten(0, 1)


def _require_whole(x: Stacked, panels: int) -> None:
    if x.shape[0] % panels:
        raise ValueError(f"pictures of {panels} panels are stacked {panels} by {panels}, got {x.shape[0]} panels")
