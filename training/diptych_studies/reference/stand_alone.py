"""Stand-alone self-attention and the attention stem (Ramachandran et al. 2019, Eq. 2-4)."""

from collections.abc import Sequence
from math import ceil, sqrt

import torch
from torch import Tensor


def stand_alone(
    panels: Sequence[Tensor],
    W_Q: Sequence[Tensor],
    W_K: Sequence[Tensor],
    W_V: Sequence[Tensor],
    k: int,
    *,
    r_row: Tensor | None = None,
    r_col: Tensor | None = None,
    s: Tensor | None = None,
    scaled: bool = False,
    grouped: bool = False,
    seam: int | None = None,
    stride: int = 1,
) -> list[Tensor]:
    """y_ij = sum_ab softmax_ab(q_ij . k_ab + q_ij . r_(a-i, b-j)) v_ab, for each head, then s x s average pooling.

    Each of one or two panels is x (N, M, d); of two, each sees the other's positions in the same window. W_Q, W_K and
    W_V hold a matrix (e, d) for each head, or grouped (e, d / C) for its part of the channels. r_row (panels, C, k, .)
    and r_col have the embeddings of row and column offsets, within a panel and to the other; s (C, e) is added to r for
    keys of the other panel, which with a `seam` are those on its other side. Returns (ceil(N / s), ceil(M / s), d_o) of
    each panel.
    """
    heads = len(W_Q)
    results = []
    for here, x in enumerate(panels):
        N, M, _ = x.shape
        rows = []
        for i in range(1, N + 1):
            for j in range(1, M + 1):
                y = []
                for c in range(heads):
                    q = W_Q[c] @ _head_channels(x[i - 1, j - 1], c, heads, grouped)
                    scores, values = [], []
                    for there, z in enumerate(panels):
                        for a, b in _window_positions(i, j, k, N, M):
                            z_ab = _head_channels(z[a - 1, b - 1], c, heads, grouped)
                            score = (q * (W_K[c] @ z_ab)).sum()
                            if r_row is not None and r_col is not None:
                                place = int(here != there)
                                first = r_row[place, c, a - i + ceil(k / 2) - 1]
                                second = r_col[place, c, b - j + ceil(k / 2) - 1]
                                score = score + (q * torch.cat([first, second])).sum()
                            across = seam is not None and (j <= seam) != (b <= seam)
                            if s is not None and (here != there or across):
                                score = score + (q * s[c]).sum()
                            scores.append(score / sqrt(len(q)) if scaled else score)
                            values.append(W_V[c] @ z_ab)
                    y.append(_softmax_sum(scores, values))
                rows.append(torch.cat(y))
        results.append(_average_pool(torch.stack(rows).reshape(N, M, -1), stride))
    return results


def attention_stem(
    x: Tensor,
    W_Q: Sequence[Tensor],
    W_K: Sequence[Tensor],
    W_V: Sequence[Sequence[Tensor]],
    emb_row: Tensor,
    emb_col: Tensor,
    nu: Tensor,
    *,
    scaled: bool = False,
) -> Tensor:
    """Attention within each w x w block, values v_ab = (sum_m p(a, b, m) W_V^m) x_ab with p(a, b, m) =
    softmax_m((emb_row(a) + emb_col(b)) . nu^m).

    x (N, M, d); W_Q, W_K: a matrix (e, d) for each head, W_V for each head one for each mixture; emb_row and emb_col
    (w, g); nu (mixtures, g). Returns (N, M, d_o).
    """
    N, M, _ = x.shape
    w = len(emb_row)

    def mixed_value(c: int, a: int, b: int) -> Tensor:
        similar = [((emb_row[a % w] + emb_col[b % w]) * nu_m).sum() for nu_m in nu]
        return _softmax_sum(similar, [W @ x[a, b] for W in W_V[c]])

    rows = []
    for i in range(N):
        for j in range(M):
            top, left = i - i % w, j - j % w
            block = [(a, b) for a in range(top, top + w) for b in range(left, left + w)]
            y = []
            for c in range(len(W_Q)):
                q = W_Q[c] @ x[i, j]
                scores = [(q * (W_K[c] @ x[a, b])).sum() / (sqrt(len(q)) if scaled else 1) for a, b in block]
                y.append(_softmax_sum(scores, [mixed_value(c, a, b) for a, b in block]))
            rows.append(torch.cat(y))
    return torch.stack(rows).reshape(N, M, -1)


def _window_positions(i: int, j: int, k: int, N: int, M: int) -> list[tuple[int, int]]:
    """The positions of a window that lie in the picture: i - ceil(k/2) + 1, ... of both axes."""
    found = []
    for u in range(1, k + 1):
        for v in range(1, k + 1):
            a, b = i - ceil(k / 2) + u, j - ceil(k / 2) + v
            if 1 <= a <= N and 1 <= b <= M:
                found.append((a, b))
    return found


def _head_channels(x: Tensor, c: int, heads: int, grouped: bool) -> Tensor:
    return x.chunk(heads)[c] if grouped else x


def _softmax_sum(scores: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    largest = max(float(score.detach()) for score in scores)
    weights = [torch.exp(score - largest) for score in scores]
    total = sum(weights[1:], weights[0])
    parts = [weight / total * value for weight, value in zip(weights, values, strict=True)]
    return sum(parts[1:], parts[0])


def _average_pool(y: Tensor, s: int) -> Tensor:
    N, M, _ = y.shape
    rows = []
    for i in range(0, N, s):
        cells = []
        for j in range(0, M, s):
            near = [y[a, b] for a in range(i, min(i + s, N)) for b in range(j, min(j + s, M))]
            cells.append(sum(near[1:], near[0]) / len(near))
        rows.append(torch.stack(cells))
    return torch.stack(rows)
