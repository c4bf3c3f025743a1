"""The Transformer's encoder and decoder: as mixers over panels, and as layers over any sequences with masks.

Eq. 3-6 of the attention guide; Vaswani et al. 2017, sections 3.1-3.5. The arithmetic is torch's own:
`nn.MultiheadAttention`, `nn.TransformerEncoderLayer` and `nn.TransformerDecoderLayer`.
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from diptych_model.mixers.mixer import Place
from diptych_model.panels import from_sequence, select_seam_attention, to_sequence
from diptych_studies.mixers.convolution import swap_panels
from diptych_studies.mixers.places import require_supported

Picture = Float[Tensor, "stacked rows cols d"]
Mixed = Float[Tensor, "stacked rows_out cols_out d_o"]
Tokens = Float[Tensor, "batch tokens d"]
Memory = Float[Tensor, "batch memory_tokens d_memory"]
Coefficients = Float[Tensor, "stacked heads asking asked"]
Padding = Bool[Tensor, "batch tokens"]
MemoryPadding = Bool[Tensor, "batch memory_tokens"]


class JointAttention(nn.Module):
    """MHA(X, X, X) (guide, Eq. 3-5) over the tokens of all panels: the attention of an encoder layer.

    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o): with a stride only
    the kept positions ask, every position answers. With `place.segments` each head adds one learned number to the
    scores within a panel and another to those across.
    """

    def __init__(self, heads: int, place: Place) -> None:
        super().__init__()
        self.panels, self.stride = place.panels, place.stride
        self.attention = _multihead_attention(place.d, heads)
        self.segment = nn.Parameter(torch.zeros(2, heads)) if place.segments and place.panels > 1 else None
        self.out = nn.Identity() if place.d_o == place.d else nn.Linear(place.d, place.d_o, bias=False)

    def forward(self, x: Picture) -> Mixed:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        y, _ = self._attend(x)
        return self.out(from_sequence(y, self.panels, *x[:, :: self.stride, :: self.stride].shape[1:3]))

    def seam_attention(self, x: Picture) -> Coefficients:
        """The attention across the seam: (B * 2, N, M, d) -> (B * 2, C, T, T)."""
        _, weights = self._attend(x, weights=True)
        assert weights is not None
        return select_seam_attention(weights)

    def _attend(self, x: Picture, *, weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """MHA's result (B, asking, d) and, where wanted, its weights (B, C, asking, T)."""
        keys = to_sequence(x, self.panels)
        queries = keys if self.stride == 1 else to_sequence(x[:, :: self.stride, :: self.stride], self.panels)
        mask = None if self.segment is None else self._segment_mask(self.segment, queries, keys)
        return self.attention(queries, keys, keys, attn_mask=mask, need_weights=weights, average_attn_weights=False)

    def _segment_mask(self, segment: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """The score that each pair of panels adds, spread over their tokens: (B * C, queries, keys)."""
        same = torch.eye(self.panels, dtype=segment.dtype, device=segment.device)
        kinds = segment[0, :, None, None] * same + segment[1, :, None, None] * (1 - same)
        for axis, tokens in ((1, queries.shape[1]), (2, keys.shape[1])):
            kinds = kinds.repeat_interleave(tokens // self.panels, axis)
        return kinds.expand(keys.shape[0], -1, -1, -1).flatten(0, 1)


class FacingDecoder(nn.Module):
    """Both attentions of a decoder layer, the other panel z in the place of the encoder's output.

    s = MHA(x, x, x), y = s + MHA(u, z, z) with u = norm(x + s). Within a block, which hands in the normed x and adds y
    to the bare one, that is the pre-norm decoder layer but for one thing: u is made from the normed x, for an operator
    never sees the bare one. Nothing is masked: no position of a picture comes after another. `forward` takes
    (B * 2, N, M, d) and returns (B * 2, ceil(N / s), ceil(M / s), d_o); with a stride only the kept positions ask.
    """

    def __init__(self, heads: int, place: Place) -> None:
        super().__init__()
        self.stride = place.stride
        self.own, self.cross = _multihead_attention(place.d, heads), _multihead_attention(place.d, heads)
        self.norm = nn.LayerNorm(place.d)
        self.out = nn.Identity() if place.d_o == place.d else nn.Linear(place.d, place.d_o, bias=False)

    def forward(self, x: Picture) -> Mixed:
        """(B * 2, N, M, d) -> (B * 2, ceil(N / s), ceil(M / s), d_o)."""
        y, _ = self._attend(x)
        return self.out(from_sequence(y, 1, *x[:, :: self.stride, :: self.stride].shape[1:3]))

    def seam_attention(self, x: Picture) -> Coefficients:
        """The cross-attention, all of which crosses the seam: (B * 2, N, M, d) -> (B * 2, C, T, T)."""
        _, weights = self._attend(x, weights=True)
        assert weights is not None
        return weights

    def _attend(self, x: Picture, *, weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """s + MHA(u, z, z) as (B * 2, asking, d) and, where wanted, the weights over z, (B * 2, C, asking, T)."""
        keys, other = to_sequence(x, 1), to_sequence(swap_panels(x), 1)
        queries = keys if self.stride == 1 else to_sequence(x[:, :: self.stride, :: self.stride], 1)
        s, _ = self.own(queries, keys, keys, need_weights=False)
        y, seen = self.cross(self.norm(queries + s), other, other, need_weights=weights, average_attn_weights=False)
        return s + y, seen


@dataclass(frozen=True)
class Transformer:
    """The encoder's self-attention over the tokens of all panels. Tokens carry their positions, so `bias` changes
    nothing.
    """

    heads: int = 4
    kind: str = field(default="transformer", init=False)

    def __post_init__(self) -> None:
        _check_heads(self.kind, self.heads)

    def build(self, place: Place) -> JointAttention:
        """The operator for a place."""
        require_supported(place, self.kind, bias=("panel", "none"))
        return JointAttention(self.heads, place)


@dataclass(frozen=True)
class Decoder:
    """The decoder's self-attention and cross-attention. The two have weights of their own, so they always tell the
    same panel from the other; `bias` changes nothing.
    """

    heads: int = 4
    kind: str = field(default="decoder", init=False)

    def __post_init__(self) -> None:
        _check_heads(self.kind, self.heads)

    def build(self, place: Place) -> FacingDecoder:
        """The operator for a place with two panels."""
        require_supported(place, self.kind, bias=("panel", "none"))
        if place.panels != 2:
            raise ValueError(
                f"the mixer 'decoder' attends from one panel to the other and needs panels = 2, got {place.panels}: "
                "use the mixer 'transformer' for a picture by itself"
            )
        return FacingDecoder(self.heads, place)


class CrossAttention(nn.Module):
    """MHA(X, Z, Z) (guide, Eq. 5): X asks, Z, of another length and width, answers; a question and an image's regions.

    `forward` takes x (B, T, d) and memory (B, S, d_memory) and returns (B, T, d); `padding` (B, S) is True where the
    memory holds no token.
    """

    def __init__(self, d: int, heads: int, d_memory: int) -> None:
        super().__init__()
        self.attention = _multihead_attention(d, heads, d_memory)

    def forward(self, x: Tokens, memory: Memory, *, padding: MemoryPadding | None = None) -> Tokens:
        """(B, T, d) and (B, S, d_memory) -> (B, T, d)."""
        return self.attention(x, memory, memory, key_padding_mask=padding, need_weights=False)[0]


class EncoderLayer(nn.Module):
    """`nn.TransformerEncoderLayer`, batch first and without dropout: self-attention and feed-forward, each with add and
    norm.

    `pre_norm` puts the norms before the sublayers instead of after their sums, as the paper does.
    """

    def __init__(self, d: int, heads: int, hidden: int, *, pre_norm: bool = False) -> None:
        super().__init__()
        _check_heads("encoder layer", heads, d)
        self.layer = nn.TransformerEncoderLayer(d, heads, hidden, 0.0, batch_first=True, norm_first=pre_norm)

    def forward(
        self, x: Tokens, *, mask: Float[Tensor, "tokens tokens"] | None = None, padding: Padding | None = None
    ) -> Tokens:
        """(B, T, d) -> the same shape. `mask` is added to the scores; `padding` is True where there is no token."""
        return self.layer(x, mask, _additive_mask(padding, x))


class DecoderLayer(nn.Module):
    """`nn.TransformerDecoderLayer`, batch first and without dropout, for a memory of any width: masked self-attention,
    cross-attention to the memory, feed-forward, each with add and norm.
    """

    def __init__(self, d: int, heads: int, hidden: int, *, d_memory: int | None = None, pre_norm: bool = False) -> None:
        super().__init__()
        _check_heads("decoder layer", heads, d)
        self.layer = nn.TransformerDecoderLayer(d, heads, hidden, 0.0, batch_first=True, norm_first=pre_norm)
        if d_memory not in (None, d):
            # torch's layer has no argument for this, but its attention does.
            self.layer.multihead_attn = nn.MultiheadAttention(d, heads, kdim=d_memory, vdim=d_memory, batch_first=True)

    def forward(
        self,
        x: Tokens,
        memory: Memory,
        *,
        mask: Float[Tensor, "tokens tokens"] | None = None,
        padding: Padding | None = None,
        memory_padding: MemoryPadding | None = None,
    ) -> Tokens:
        """(B, T, d) and (B, S, d_memory) -> (B, T, d); masks as in `EncoderLayer`."""
        return self.layer(
            x,
            memory,
            mask,
            tgt_key_padding_mask=_additive_mask(padding, x),
            memory_key_padding_mask=_additive_mask(memory_padding, memory),
        )

    def cross_attention_weights(
        self,
        x: Tokens,
        memory: Memory,
        *,
        mask: Float[Tensor, "tokens tokens"] | None = None,
        padding: Padding | None = None,
        memory_padding: MemoryPadding | None = None,
    ) -> Float[Tensor, "batch heads tokens memory_tokens"]:
        """The weights of the cross-attention in `forward`: (B, heads, T, S), over S they sum to one."""
        layer, padding = self.layer, _additive_mask(padding, x)
        asking = layer.norm1(x) if layer.norm_first else x
        own = layer.self_attn(asking, asking, asking, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]
        asking = (layer.norm2 if layer.norm_first else layer.norm1)(x + own)
        weights = layer.multihead_attn(
            *(asking, memory, memory),
            key_padding_mask=_additive_mask(memory_padding, memory),
            average_attn_weights=False,
        )[1]
        assert weights is not None
        return weights


def causal_mask(tokens: int) -> Float[Tensor, "t t"]:
    """The M of the guide's Eq. 6: 0 up to a position, -inf after it. Its division by sqrt(d_k) changes neither.

    The Q^T K beside it is the Q K^T of Eq. 4.
    """
    return nn.Transformer.generate_square_subsequent_mask(tokens)


def sinusoids(tokens: int, d: int) -> Float[Tensor, "tokens d"]:
    """PE[t, 2i] = sin(t / 10000^(2i / d)), PE[t, 2i + 1] = cos of the same (Vaswani et al., section 3.5), t from 0."""
    if d % 2:
        raise ValueError(f"sines and cosines come in pairs: d must be even, got {d}")
    angles = torch.arange(tokens)[:, None] / 10_000 ** (torch.arange(0, d, 2) / d)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def _multihead_attention(d: int, heads: int, d_memory: int | None = None) -> nn.MultiheadAttention:
    """The attention of Eq. 5, without biases. Keys start as queries do where both have the same width."""
    _check_heads("attention", heads, d)
    attention = nn.MultiheadAttention(d, heads, bias=False, kdim=d_memory, vdim=d_memory, batch_first=True)
    if attention.in_proj_weight is not None:
        with torch.no_grad():
            attention.in_proj_weight[d : 2 * d] = attention.in_proj_weight[:d]
    return attention


def _check_heads(what: str, heads: int, d: int | None = None) -> None:
    if heads < 1 or (d is not None and d % heads):
        raise ValueError(
            f"{what}: heads must be positive and divide the width" + (f" {d}" if d else "") + f", got {heads}"
        )


def _additive_mask(padding: Tensor | None, like: Tensor) -> Tensor | None:
    """The padding as a mask to be added: True -> -inf. Torch wants paddings and masks of one kind."""
    return None if padding is None else like.new_zeros(padding.shape).masked_fill(padding, -torch.inf)
