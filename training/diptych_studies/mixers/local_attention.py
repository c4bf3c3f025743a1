"""Attention within a window around each position, by blocks of queries."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

BLOCK = 4
Queries = Float[Tensor, "batch rows cols heads e"]
Keys = Float[Tensor, "batch rows cols sources heads e"]


@dataclass(frozen=True)
class _Axis:
    """One axis of the grid in blocks: their number and length, the zeros before and after, the keys of a block."""

    count: int
    block: int
    before: int
    after: int
    keys: int


class LocalAttention(nn.Module):
    """y_ij = sum_sab softmax_sab(q_ij . k_sab + q_ij . r_(s, a-i, b-j)) v_sab, ab in the k x k window around ij that
    lies in the picture, s the sources of keys (the panel itself, or also the one it faces).

    Odd windows are centred, even ones reach one further down and to the right, as `convolve` has it. The first half of
    r's channels is `r_row[s, head, a-i]`, the rest `r_col[s, head, b-j]`. `segments` adds q . `s` for the keys of
    another panel: of the second source, or across a column seam. `scaled` divides the scores by sqrt(e).

    Queries are taken in blocks of 4 x 4 with the (k + 3)^2 keys that any of them sees, what is outside a query's window
    is masked; an axis no longer than a block's keys is one block. Keys are thus held (k + 3)^2 / 16 times, 6 for k = 7,
    not k^2 times, and the scores 2 k^2; in exchange twice the products are computed. Measured on one core, forward and
    backward of (8, 16, 16, 64), k = 7, 4 heads: 15 ms by blocks, 26 ms by a loop over the k^2 offsets (which holds no
    copies, but whose graph has hundreds of nodes), 47 ms by k^2 copies, 12 ms densely masked (2.6 times the scores of
    blocks, and worse with every larger picture).
    """

    def __init__(
        self,
        k: int,
        heads: int,
        e: int,
        *,
        sources: int = 1,
        embedded: bool = True,
        segments: bool = False,
        scaled: bool = False,
    ) -> None:
        super().__init__()
        if embedded and e < 2:
            raise ValueError(f"row and column offsets share a head's channels: a head needs at least 2, got {e}")
        self.k, self.sources, self.embedded = k, sources, embedded
        self.before = (k + 1) // 2 - 1
        self.scale = e**-0.5 if scaled else 1.0
        self.r_row = nn.Parameter(torch.zeros(sources, heads, k, e // 2)) if embedded else None
        self.r_col = nn.Parameter(torch.zeros(sources, heads, k, e - e // 2)) if embedded else None
        self.s = nn.Parameter(torch.zeros(heads, e)) if segments else None

    def forward(self, q: Queries, keys: Keys, values: Keys, seam: int) -> Queries:
        """q (B, N, M, C, e), keys and values (B, N, M, S, C, e) -> (B, N, M, C, e); `seam`: the columns of a panel."""
        _, N, M, heads, e = q.shape
        down, across = self._split_axis(N), self._split_axis(M)
        # (B, n, m, C, i, j, e): blocks n, m with queries i, j in them
        q = F.pad(q * self.scale, (0, 0, 0, 0, 0, across.count * across.block - M, 0, down.count * down.block - N))
        q = q.reshape(-1, down.count, down.block, across.count, across.block, heads, e).permute(0, 1, 3, 5, 2, 4, 6)
        scores = (q.flatten(4, 5) @ self._key_windows(keys, down, across)).unflatten(-1, (-1, down.keys, across.keys))
        scores = scores.unflatten(4, (down.block, across.block))
        rows, cols = self._positional_scores(q, (N, M), (down, across), seam)
        weights = (scores + rows + cols).flatten(-3).softmax(-1).flatten(4, 5)
        y = (weights @ self._key_windows(values, down, across).transpose(-1, -2)).unflatten(
            4, (down.block, across.block)
        )
        y = y.permute(0, 1, 4, 2, 5, 3, 6).reshape(-1, down.count * down.block, across.count * across.block, heads, e)
        return y[:, :N, :M]

    def count_flops(self, q: Tensor, keys: Tensor, values: Tensor, seam: int) -> int:
        """The operations of the formula, k^2 keys at every position; a multiply-add counts as two.

        Blocks compute about twice as many.
        """
        return 2 * q.numel() * self.k**2 * self.sources * (3 if self.embedded else 2)

    def _split_axis(self, length: int) -> _Axis:
        """An axis of this length in blocks of queries, with the keys that each sees."""
        keys = BLOCK + self.k - 1
        if length <= keys:
            return _Axis(1, length, 0, 0, length)
        count = -(-length // BLOCK)
        return _Axis(count, BLOCK, self.before, count * BLOCK + keys - BLOCK - self.before - length, keys)

    def _key_windows(self, x: Keys, down: _Axis, across: _Axis) -> Float[Tensor, "batch n m heads e window"]:
        """The keys of each block, sources one after another: (B, N, M, S, C, e) -> (B, n, m, C, e, S * h * w)."""
        padded = F.pad(x, (0, 0, 0, 0, 0, 0, across.before, across.after, down.before, down.after))
        windows = padded.unfold(1, down.keys, down.block).unfold(2, across.keys, across.block)
        return windows.permute(0, 1, 2, 4, 5, 3, 6, 7).flatten(5)

    def _positional_scores(
        self, q: Tensor, grid: tuple[int, int], axes: tuple[_Axis, _Axis], seam: int
    ) -> tuple[Tensor, Tensor]:
        """The positional terms of the scores, by the row and by the column of a key.

        Both fit (B, n, m, C, i, j, S, h, w); they are -inf where a key lies outside the window or the picture.
        """
        (rows, down, _), (cols, across, other) = (
            self._mask_and_offsets(length, axis, seam, q) for length, axis in zip(grid, axes, strict=True)
        )
        rows, cols = rows[:, None, None, :, None, None, :, None], cols[:, None, None, :, None, None]
        if self.r_row is not None and self.r_col is not None:
            half = self.r_row.shape[-1]
            r_row, r_col = (
                r.index_select(2, offset.flatten()).unflatten(2, offset.shape)
                for r, offset in ((self.r_row, down), (self.r_col, across))
            )
            rows = rows + torch.einsum("znmcije,scihe->znmcijsh", q[..., :half], r_row)[..., None]
            cols = cols + torch.einsum("znmcije,scjwe->znmcijsw", q[..., half:], r_col)[..., None, :]
        if self.s is not None:
            if self.sources > 1:
                other = torch.arange(self.sources, device=q.device, dtype=q.dtype)[:, None, None]
            else:
                other = other[:, None, None, :, None, None]
            cols = cols + torch.einsum("znmcije,ce->znmcij", q, self.s)[..., None, None, None] * other
        return rows, cols

    def _mask_and_offsets(self, length: int, axis: _Axis, seam: int, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The mask and the offsets of all keys from all queries along one axis.

        For blocks n, queries i and keys h: the mask (n, i, h), the index (i, h) of the offset in the window, and
        (n, i, h) whether a seam lies between them.
        """
        start = torch.arange(axis.count, device=q.device)[:, None, None] * axis.block
        query = start + torch.arange(axis.block, device=q.device)[:, None]
        key = start + torch.arange(axis.keys, device=q.device) - axis.before
        offset = (key - query + self.before)[0]
        # Padded queries see padded keys, for a softmax over nothing would have no gradient but NaN.
        seen = (offset >= 0) & (offset < self.k) & ((key >= 0) & (key < length) | (query >= length))
        mask = torch.zeros(seen.shape, dtype=q.dtype, device=q.device).masked_fill(~seen, -torch.inf)
        other = (torch.div(key, seam, rounding_mode="floor") != torch.div(query, seam, rounding_mode="floor")).to(
            q.dtype
        )
        return mask, offset.clamp(0, self.k - 1), other
