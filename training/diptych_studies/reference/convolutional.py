"""Operators that stand beside a convolution or after it, over the positions of several panels.

Attention-augmented convolution (Bello et al. 2019; guide Eq. 5 and 10), squeeze-and-excitation (Hu et al. 2018, Eq.
2-4; guide Eq. 7-9) and the self-attention of SAGAN (Zhang et al. 2018, Eq. 1-3).
"""

from collections.abc import Mapping, Sequence
from math import sqrt

import torch
from torch import Tensor


def average_pooling(x: Tensor, stride: int) -> Tensor:
    """The mean over the 3 x 3 positions around 1, 1 + s, ..., as far as they lie in the picture x (N, M, d)."""
    N, M, _ = x.shape
    rows = []
    for i in range(0, N, stride):
        cols = []
        for j in range(0, M, stride):
            near = [x[a, b] for a in range(i - 1, i + 2) for b in range(j - 1, j + 2) if 0 <= a < N and 0 <= b < M]
            cols.append(sum(near[1:], near[0]) / len(near))
        rows.append(torch.stack(cols))
    return torch.stack(rows)


def relative_self_attention(
    panels: Sequence[Tensor],
    weights: Mapping[str, Tensor],
    heads: int,
    r_H: Sequence[Mapping[int, Tensor]],
    r_W: Sequence[Mapping[int, Tensor]],
    *,
    seam: int = 0,
) -> list[Tensor]:
    """Concat[O_1, ..., O_h] W^O with o_p = sum_p' softmax_p'(q_p . (k_p' + r^W_{x'-x} + r^H_{y'-y}) / sqrt(d_k)) v_p'.

    d_k is here the width of one head. r_H and r_W map an offset to its vector: the first of each within a panel, the
    last across. `seam` is what a panel further adds to the column of a position: 0 with panel-local coordinates, M for
    those of t = [x, z]. Panels are (N, M, d), W_Q and W_K (h d_k, d), W_V (h e, d), W_O (h e, h e); returns (N, M, h e)
    of each panel.
    """
    W_Q, W_K, W_V, W_O = (weights[name] for name in ("W_Q", "W_K", "W_V", "W_O"))
    positions = [
        (panel, y, x) for panel, one in enumerate(panels) for y in range(one.shape[0]) for x in range(one.shape[1])
    ]
    outputs: list[list[Tensor]] = [[] for _ in panels]
    for panel, y, x in positions:
        joined = []
        for head in range(heads):
            q = (W_Q @ panels[panel][y, x]).chunk(heads)[head]
            exponents, values = [], []
            for panel_2, y_2, x_2 in positions:
                k = (W_K @ panels[panel_2][y_2, x_2]).chunk(heads)[head]
                table = 0 if panel == panel_2 else -1
                across = (x_2 + panel_2 * seam) - (x + panel * seam)
                r = r_W[table][across] + r_H[table][y_2 - y]
                exponents.append(torch.dot(q, k + r) / sqrt(len(q)))
                values.append((W_V @ panels[panel_2][y_2, x_2]).chunk(heads)[head])
            shift = max(float(e.detach()) for e in exponents)
            weighed = [torch.exp(e - shift) for e in exponents]
            total = sum(weighed, q.new_zeros(()))
            joined.append(sum((w / total * v for w, v in zip(weighed, values, strict=True)), values[0] * 0))
        outputs[panel].append(W_O @ torch.cat(joined))
    return [torch.stack(y).reshape(*one.shape[:2], -1) for y, one in zip(outputs, panels, strict=True)]


def squeeze(u: Tensor) -> Tensor:
    """Eq. 7: z_c = 1 / (N M) sum_i sum_j u_c(i, j); u (N, M, d), returns (d,)."""
    N, M, d = u.shape
    z = []
    for c in range(d):
        total = u.new_zeros(())
        for i in range(N):
            for j in range(M):
                total = total + u[i, j, c]
        z.append(total / (N * M))
    return torch.stack(z)


def squeeze_excitation(panels: Sequence[Tensor], W_1: Tensor, W_2: Tensor) -> list[Tensor]:
    """Eq. 8 and 9: s = sigmoid(W_2 relu(W_1 z)), x~_c = s_c u_c, for every panel u (N, M, d).

    z holds the panel's own statistics, then those of the other panels; W_1 (d / r, panels * d), W_2 (d, d / r).
    """
    results = []
    for here, u in enumerate(panels):
        z = [squeeze(u)] + [squeeze(other) for there, other in enumerate(panels) if there != here]
        hidden = [(row * torch.cat(z)).sum().clamp(min=0) for row in W_1]
        scaled = []
        for c, row in enumerate(W_2):
            excitation = sum((w * h for w, h in zip(row, hidden, strict=True)), u.new_zeros(()))
            scaled.append(u[:, :, c] / (1 + torch.exp(-excitation)))
        results.append(torch.stack(scaled, -1))
    return results


def non_local(
    panels: Sequence[Tensor], weights: Mapping[str, Tensor], same: Tensor, other: Tensor, *, stride: int = 1
) -> list[Tensor]:
    """o_j = W_v sum_i alpha_ij W_h x_i, alpha_ij = exp(s_ij) / sum_i exp(s_ij), s_ij = (W_f x_i) . (W_g x_j).

    The sum over i makes the coefficients of every output j sum to one. `same` is added to the scores within a panel,
    `other` to those across. A stride keeps the outputs 1, 1 + s, ... Panels are (N, M, d), W_f, W_g and W_h (e, d),
    W_v (d_o, e); returns (ceil(N / s), ceil(M / s), d_o) of each panel.
    """
    W_f, W_g, W_h, W_v = (weights[name] for name in ("W_f", "W_g", "W_h", "W_v"))
    results = []
    for here, x in enumerate(panels):
        rows = []
        for row in x[::stride]:
            cols = []
            for x_j in row[::stride]:
                g = W_g @ x_j
                exponents, values = [], []
                for there, z in enumerate(panels):
                    for x_i in z.flatten(0, 1):
                        exponents.append(torch.dot(W_f @ x_i, g) + (same if here == there else other))
                        values.append(W_h @ x_i)
                shift = max(float(s.detach()) for s in exponents)
                alphas = [torch.exp(s - shift) for s in exponents]
                total = sum(alphas, x.new_zeros(()))
                mean = sum((a / total * h for a, h in zip(alphas, values, strict=True)), torch.zeros_like(values[0]))
                cols.append(W_v @ mean)
            rows.append(torch.stack(cols))
        results.append(torch.stack(rows))
    return results


def non_local_block(x: Tensor, weights: Mapping[str, Tensor], gamma: Tensor) -> Tensor:
    """Eq. 3: y_i = gamma o_i + x_i, of one picture (N, M, d)."""
    zero = x.new_zeros(())
    return gamma * non_local([x], weights, zero, zero)[0] + x
