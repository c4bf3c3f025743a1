"""The definitions of the paper as plain loops in float64: the truth that the fast paths are held against.

Nothing here is optimised and nothing is shared with the code it checks. Pictures are x[i, j] of d channels, without a
batch; indices count from one as in the paper and are moved by one where a tensor is read. Gradients flow, so these
check them too.
"""

from collections.abc import Mapping, Sequence
from math import ceil, sqrt

import torch
from torch import Tensor


def convolution(x: Tensor, H: Tensor) -> Tensor:
    """Definitions 1 and 2: c[i, j, f] = sum_kl x[i - ceil(n/2) + k, j - ceil(m/2) + l] . H[f, k, l]; zero outside.

    Shapes: x (N, M, d), H (F, n, m, d); returns (N, M, F).
    """
    N, M, _ = x.shape
    F, n, m, _ = H.shape
    rows = []
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            for f in range(F):
                c = x.new_zeros(())
                for k in range(1, n + 1):
                    for l in range(1, m + 1):  # noqa: E741 - the paper's letter
                        a, b = i - ceil(n / 2) + k, j - ceil(m / 2) + l
                        if 1 <= a <= N and 1 <= b <= M:
                            c = c + (x[a - 1, b - 1] * H[f, k - 1, l - 1]).sum()
                rows.append(c)
    return torch.stack(rows).reshape(N, M, F)


def attention(q: Tensor, k: Tensor, v: Tensor, b: Tensor) -> Tensor:
    """Eq. 2-4 for one head on one picture: q, k (N, M, d_a), v (N, M, d_o), b (N, M); returns (N, M, d_o)."""
    N, M, _ = q.shape
    panels = [(q, k, v)]
    return attention_over_panels(panels, b, b)[0].reshape(N, M, -1)


def attention_over_panels(panels: Sequence[tuple[Tensor, Tensor, Tensor]], same: Tensor, other: Tensor) -> list[Tensor]:
    """Eq. 2-4 over the positions of several panels: each attends all; the bias is `same` within a panel, `other`
    across.

    Every panel is (q, k, v) of (N, M, ...); coordinates are panel-local. Returns y (N, M, d_o) of each panel.
    """
    results = []
    for here, (q, _, _) in enumerate(panels):
        N, M, d_a = q.shape
        ys = []
        for i in range(N):
            for j in range(M):
                scores, values = [], []
                for there, (_, k, v) in enumerate(panels):
                    b = same if here == there else other
                    for r in range(N):
                        for t in range(M):
                            alpha = (k[r, t] * q[i, j]).sum()
                            scores.append(alpha / sqrt(d_a) + b[abs(i - r), abs(j - t)])
                            values.append(v[r, t])
                weights = [torch.exp(score - max(float(s.detach()) for s in scores)) for score in scores]
                total = sum(weights[1:], weights[0])
                y = sum(
                    (w / total * value for w, value in zip(weights[1:], values[1:], strict=True)),
                    weights[0] / total * values[0],
                )
                ys.append(y)
        results.append(torch.stack(ys).reshape(N, M, -1))
    return results


def sac(
    panels: Sequence[Tensor], filters: Mapping[str, Tensor], heads: int, same: Tensor, other: Tensor
) -> list[Tensor]:
    """Sections 2.1 and 3 on panels (N, M, d): heads apart, concatenated, reduced by H_Y; beside H_R, by a second H_Y.

    `filters` holds H_Q, H_K (C * d_a, n, m, d), H_V (C * d_o, n, m, d), H_Y (d_o, 1, 1, C * d_o) and, with the branch,
    H_R (d_o, n, m, d) and H_Y_R (d_o, 1, 1, 2 d_o); `same` and `other` are the bias tables (C, N, M).
    """
    by_head = []
    for c in range(heads):
        projected = []
        for x in panels:
            q, k, v = (convolution(x, filters[name].chunk(heads)[c]) for name in ("H_Q", "H_K", "H_V"))
            projected.append((q, k, v))
        by_head.append(attention_over_panels(projected, same[c], other[c]))
    results = []
    for place, x in enumerate(panels):
        y = convolution(torch.cat([head[place] for head in by_head], -1), filters["H_Y"])
        if "H_R" in filters:
            y = convolution(torch.cat([y, convolution(x, filters["H_R"])], -1), filters["H_Y_R"])
        results.append(y)
    return results


def msac(gammas: Sequence[Tensor], H_phi: Tensor) -> Tensor:
    """Section 4: the outputs (N, M, d_o) of the scales, concatenated and reduced by H_phi (d_phi, 1, 1, sum of d_o)."""
    return convolution(torch.cat(list(gammas), -1), H_phi)
