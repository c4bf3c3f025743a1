"""The layers of XCiT (El-Nouby et al. 2021) and class attention (Touvron et al. 2021), of one picture or several
panels.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

import torch
from torch import Tensor

from diptych_model.reference.sac import convolution


def cross_covariance_attention(
    panels: Sequence[Tensor], weights: Mapping[str, Tensor], heads: int, own: Tensor, other: Tensor
) -> list[Tensor]:
    """XCA on panels (N, M, d): y_c = sum_c' softmax_c'(sum_p tau_p q^_c(p) k^_c'(p)) v_c', the heads joined by W_O.

    q^ and k^ are the channels of a head, of unit length over the tokens p of all panels. tau_p is `own` (heads,) for
    the tokens of the panel whose output it is, `other` for those of the others. Every weight is (d, d).
    """
    tokens = [(panel, x) for panel, picture in enumerate(panels) for x in picture.flatten(0, 1)]
    projected = {name: torch.stack([weights[name] @ x for _, x in tokens]) for name in ("W_Q", "W_K", "W_V")}
    d = panels[0].shape[-1]
    width = d // heads

    def unit(column: Tensor) -> Tensor:
        return column / torch.sqrt(sum((value * value for value in column), column.new_zeros(())))

    results = []
    for here, picture in enumerate(panels):
        mine = [index for index, (panel, _) in enumerate(tokens) if panel == here]
        channels = []
        for c in range(d):
            head = c // width
            q = unit(projected["W_Q"][:, c])
            exponents, values = [], []
            for key in range(head * width, (head + 1) * width):
                k = unit(projected["W_K"][:, key])
                score = picture.new_zeros(())
                for index, (panel, _) in enumerate(tokens):
                    score = score + (own if panel == here else other)[head] * q[index] * k[index]
                exponents.append(torch.exp(score))
                values.append(projected["W_V"][mine, key])
            total = sum(exponents, picture.new_zeros(()))
            channels.append(sum((e / total * v for e, v in zip(exponents, values, strict=True)), values[0] * 0))
        y = torch.stack(channels, -1)
        results.append(torch.stack([weights["W_O"] @ token for token in y]).reshape(picture.shape))
    return results


def local_patch_interaction(
    panels: Sequence[Tensor],
    first: Mapping[str, Tensor],
    second: Mapping[str, Tensor],
    norm: Mapping[str, Tensor],
    *,
    stride: int = 1,
) -> list[Tensor]:
    """LPI on panels (N, M, d): depthwise windows, GELU, BatchNorm with given means and variances, depthwise windows.

    `first` and `second` hold filters H (d, n, n, k) and biases b (d,), k = 1, or 2 for a panel's own windows and the
    other panel's; `norm` mean, variance, weight and bias (d,), and eps. The stride is that of the second.
    """
    hidden = []
    for x in _convolve_depthwise(panels, first, 1):
        y = x * 0.5 * (1 + torch.erf(x / sqrt(2)))
        deviation = torch.sqrt(norm["variance"] + norm["eps"])
        hidden.append((y - norm["mean"]) / deviation * norm["weight"] + norm["bias"])
    return _convolve_depthwise(hidden, second, stride)


def cross_covariance_layer(
    us: Sequence[Tensor],
    attended: Sequence[Tensor],
    between: Mapping[str, Tensor],
    first: Mapping[str, Tensor],
    second: Mapping[str, Tensor],
    norm: Mapping[str, Tensor],
    *,
    stride: int = 1,
) -> list[Tensor]:
    """a + LPI(LayerNorm(u + a)) on panels u (N, M, d), where a is the output of XCA.

    `between` holds LayerNorm's weight, bias and eps; the rest are those of LPI. With a stride a keeps 1, 1 + s, ...
    """
    local = local_patch_interaction(
        [_layer_norm(u + a, between) for u, a in zip(us, attended, strict=True)], first, second, norm, stride=stride
    )
    return [a[::stride, ::stride] + y for a, y in zip(attended, local, strict=True)]


def class_attention(token: Tensor, tokens: Tensor, weights: Mapping[str, Tensor], heads: int) -> Tensor:
    """Touvron et al. 2021, Eq. 2-6: z = [x_class, x], q of x_class, k and v of z; W_O softmax(q . k / sqrt(d / h)) v.

    token (d,), tokens (T, d), weights W_Q, W_K, W_V, W_O (d, d) and biases b_Q, b_K, b_V, b_O (d,); returns (d,).
    """
    q = weights["W_Q"] @ token + weights["b_Q"]
    z = [token, *tokens]
    outputs = []
    for head in range(heads):
        q_h = q.chunk(heads)[head]
        exponents, values = [], []
        for x in z:
            k = (weights["W_K"] @ x + weights["b_K"]).chunk(heads)[head]
            exponents.append(torch.exp(torch.dot(q_h, k) / sqrt(len(q_h))))
            values.append((weights["W_V"] @ x + weights["b_V"]).chunk(heads)[head])
        total = sum(exponents, token.new_zeros(()))
        outputs.append(sum((e / total * v for e, v in zip(exponents, values, strict=True)), values[0] * 0))
    return weights["W_O"] @ torch.cat(outputs) + weights["b_O"]


def _convolve_depthwise(panels: Sequence[Tensor], windows: Mapping[str, Tensor], stride: int) -> list[Tensor]:
    """Every channel with its own filter; with two in a filter the second for the same channel of the other panel."""
    H, b = windows["H"], windows["b"]
    results = []
    for here in range(len(panels)):
        seen = [panels[here]] + ([panels[1 - here]] if H.shape[-1] == 2 else [])
        channels = []
        for c in range(len(H)):
            picture = torch.stack([one[:, :, c] for one in seen], -1)
            channels.append(convolution(picture, H[c : c + 1], stride=stride)[:, :, 0] + b[c])
        results.append(torch.stack(channels, -1))
    return results


def _layer_norm(x: Tensor, norm: Mapping[str, Tensor]) -> Tensor:
    """Every position of x (N, M, d) less its mean, over its deviation."""
    tokens = []
    for token in x.flatten(0, 1):
        mean = token.sum() / len(token)
        variance = ((token - mean) ** 2).sum() / len(token)
        tokens.append((token - mean) / torch.sqrt(variance + norm["eps"]) * norm["weight"] + norm["bias"])
    return torch.stack(tokens).reshape(x.shape)
