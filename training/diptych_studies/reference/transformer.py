"""Multi-head attention with a mask, encoder and decoder layer (attention guide, Eq. 3-6; Vaswani et al. 2017)."""

from collections.abc import Mapping
from math import cos, sin, sqrt

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]
EPSILON = 1e-5


def multi_head(x: Tensor, z: Tensor, weights: Weights, heads: int, mask: Tensor | None = None) -> Tensor:
    """Eq. 3, 5 and 6: Concat[O_1, ..., O_h] W_O with O_h = softmax((q k + M) / sqrt(d_k)) v, queries from x, the rest
    from z.

    x (T, d), z (S, d_z); `weights` holds W_Q (d, d), W_K and W_V (d, d_z), W_O (d_o, d), each applied as W x, and may
    hold b_Q, b_K, b_V, b_O. `mask` M is (T, S), or (heads, T, S); it is added after the division: as -inf the same.
    """

    def project(token: Tensor, name: str) -> Tensor:
        y = torch.stack([(row * token).sum() for row in weights[f"W_{name}"]])
        return y + weights[f"b_{name}"] if f"b_{name}" in weights else y

    queries = [project(token, "Q") for token in x]
    keys, values = ([project(token, name) for token in z] for name in ("K", "V"))
    d_k = len(queries[0]) // heads
    attended = []
    for t, q in enumerate(queries):
        joined = []
        for h in range(heads):
            part = slice(h * d_k, (h + 1) * d_k)
            terms, values_seen = [], []
            for s, (k, v) in enumerate(zip(keys, values, strict=True)):
                added = x.new_zeros(()) if mask is None else mask[h, t, s] if mask.dim() == 3 else mask[t, s]
                if torch.isneginf(added):
                    continue
                terms.append(torch.exp((q[part] * k[part]).sum() / sqrt(d_k) + added))
                values_seen.append(v[part])
            total = sum(terms[1:], terms[0])
            joined.append(torch.stack([w / total * v for w, v in zip(terms, values_seen, strict=True)]).sum(0))
        attended.append(project(torch.cat(joined), "O"))
    return torch.stack(attended)


def layer_norm(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """Every token (T, d) to mean 0 and variance 1 over its channels, then scaled and moved."""
    tokens = []
    for token in x:
        mean = token.sum() / len(token)
        variance = ((token - mean) ** 2).sum() / len(token)
        tokens.append((token - mean) / torch.sqrt(variance + EPSILON) * gain + shift)
    return torch.stack(tokens)


def feed_forward(x: Tensor, weights: Weights) -> Tensor:
    """W_2 max(0, W_1 x + b_1) + b_2, the same for every token."""
    tokens = []
    for token in x:
        hidden = [(row * token).sum() + b for row, b in zip(weights["W_1"], weights["b_1"], strict=True)]
        raised = torch.stack([h if h > 0 else 0 * h for h in hidden])
        tokens.append(torch.stack([(row * raised).sum() for row in weights["W_2"]]) + weights["b_2"])
    return torch.stack(tokens)


def encoder_layer(
    x: Tensor, parts: Mapping[str, Weights], heads: int, *, mask: Tensor | None = None, pre_norm: bool = False
) -> Tensor:
    """x = norm(x + MHA(x, x, x)), x = norm(x + FFNN(x)); `pre_norm`: x + MHA(norm x), x + FFNN(norm x).

    `parts` holds *self* (see `multi_head`), *feed* (W_1, b_1, W_2, b_2), *norm1* and *norm2* (gain, shift).
    """
    if pre_norm:
        n = layer_norm(x, **parts["norm1"])
        x = x + multi_head(n, n, parts["self"], heads, mask)
        return x + feed_forward(layer_norm(x, **parts["norm2"]), parts["feed"])
    x = layer_norm(x + multi_head(x, x, parts["self"], heads, mask), **parts["norm1"])
    return layer_norm(x + feed_forward(x, parts["feed"]), **parts["norm2"])


def decoder_layer(
    x: Tensor,
    memory: Tensor,
    parts: Mapping[str, Weights],
    heads: int,
    *,
    mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    pre_norm: bool = False,
) -> Tensor:
    """An encoder layer with attention to a memory (S, d_memory) in the middle; `parts` also holds *cross*, *norm3*."""
    if pre_norm:
        n = layer_norm(x, **parts["norm1"])
        x = x + multi_head(n, n, parts["self"], heads, mask)
        x = x + multi_head(layer_norm(x, **parts["norm2"]), memory, parts["cross"], heads, memory_mask)
        return x + feed_forward(layer_norm(x, **parts["norm3"]), parts["feed"])
    x = layer_norm(x + multi_head(x, x, parts["self"], heads, mask), **parts["norm1"])
    x = layer_norm(x + multi_head(x, memory, parts["cross"], heads, memory_mask), **parts["norm2"])
    return layer_norm(x + feed_forward(x, parts["feed"]), **parts["norm3"])


def facing_decoder(own: Tensor, other: Tensor, parts: Mapping[str, Weights], heads: int) -> Tensor:
    """Both attentions without their own residual: s = MHA(x, x, x), s + MHA(norm(x + s), z, z); x (T, d), z (T, d)."""
    s = multi_head(own, own, parts["self"], heads)
    return s + multi_head(layer_norm(own + s, **parts["norm"]), other, parts["cross"], heads)


def sinusoids(tokens: int, d: int) -> Tensor:
    """PE[t, 2i] = sin(t / 10000^(2i / d)), PE[t, 2i + 1] = cos(t / 10000^(2i / d)), t from 0."""
    rows = []
    for t in range(tokens):
        rows.append([sin(t / 10_000 ** (c / d)) if c % 2 == 0 else cos(t / 10_000 ** ((c - 1) / d)) for c in range(d)])
    return torch.tensor(rows, dtype=torch.float64)
