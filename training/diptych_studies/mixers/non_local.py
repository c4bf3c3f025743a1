"""The self-attention of SAGAN (Zhang et al. 2018), a non-local operator: as a mixer, and as a residual block."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.attention import attention_coefficients
from diptych_model.convolution import convolve, new_filters
from diptych_model.mixers.mixer import Place
from diptych_model.panels import from_sequence, select_seam_attention, to_sequence
from diptych_studies.mixers.places import require_supported

Picture = Float[Tensor, "stacked rows cols d"]


class NonLocal(nn.Module):
    """o_j = W_v sum_i alpha_ij W_h x_i, alpha_ij = softmax_i((W_f x_i) . (W_g x_j)) (Zhang et al. 2018, Eq. 1-2).

    W_f x are the keys, W_g x the queries, W_h x the values, all of width d / reduction; the scores are not scaled. The
    softmax runs over the key positions i, so that the coefficients of every output j sum to one. Positions are those
    of all panels. `segments` adds one learned number to the scores within a panel and another to those across. A
    stride keeps the outputs 1, 1 + s, ...; the keys remain all positions.

    `forward` takes (B * panels, N, M, d) and returns (B * panels, ceil(N / s), ceil(M / s), d_o). Raises `ValueError`
    if the reduction does not divide d.
    """

    def __init__(
        self, d: int, d_o: int, reduction: int = 4, *, panels: int = 1, stride: int = 1, segments: bool = False
    ) -> None:
        super().__init__()
        if reduction < 1 or d % reduction:
            raise ValueError(f"the reduction must divide the channels: {d} channels, reduction {reduction}")
        self.panels, self.stride = panels, stride
        width = d // reduction
        self.W_g = new_filters(width, d, 1, 1)
        with torch.no_grad():
            # Without a scale in the formula scores of unit variance must come from smaller weights.
            self.W_g.mul_(width**-0.25)
        self.W_f = nn.Parameter(self.W_g.detach().clone())
        self.W_h = new_filters(width, d, 1, 1)
        self.W_v = new_filters(d_o, width, 1, 1)
        self.segment = nn.Parameter(torch.zeros(2)) if segments else None

    def forward(self, x: Picture) -> Float[Tensor, "stacked rows_out cols_out d_o"]:
        """(B * panels, N, M, d) -> (B * panels, ceil(N / s), ceil(M / s), d_o)."""
        rows, cols = x[:, :: self.stride, :: self.stride].shape[1:3]
        q, k = self._queries_and_keys(x)
        v = to_sequence(convolve(x, self.W_h), self.panels).unsqueeze(1)
        o = F.scaled_dot_product_attention(q, k, v, scale=1.0).squeeze(1)
        return convolve(from_sequence(o, self.panels, rows, cols), self.W_v)

    def seam_attention(self, x: Picture) -> Float[Tensor, "stacked heads asking asked"]:
        """The attention across the seam: (B * 2, N, M, d) -> (B * 2, 1, T, T)."""
        return select_seam_attention(attention_coefficients(*self._queries_and_keys(x), scale=1.0))

    def _queries_and_keys(self, x: Picture) -> tuple[Tensor, Tensor]:
        """The queries (B, 1, asking, e) and keys (B, 1, T, e), whose products are the scores."""
        q = to_sequence(convolve(x[:, :: self.stride, :: self.stride], self.W_g), self.panels)
        k = to_sequence(convolve(x, self.W_f), self.panels)
        if self.segment is not None:
            q, k = self._with_segments(q, k, self.segment)
        return q.unsqueeze(1), k.unsqueeze(1)

    def _with_segments(self, q: Tensor, k: Tensor, segment: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys with a channel for every panel: a key names its panel, a query says what each is worth."""
        names = torch.eye(self.panels, dtype=k.dtype, device=k.device)
        worth = segment.to(q.dtype)[0] * names + segment.to(q.dtype)[1] * (1 - names)
        return _append_panel_channels(q, worth, self.panels), _append_panel_channels(k, names, self.panels)


class NonLocalBlock(nn.Module):
    """y = x + gamma o, gamma starting at zero (Zhang et al. 2018, Eq. 3): for use after a stage of a residual network.

    `forward` maps (B * panels, N, M, d) to the same shape. The switches are those of `NonLocal`.
    """

    def __init__(self, d: int, reduction: int = 4, *, panels: int = 1, segments: bool = False) -> None:
        super().__init__()
        self.operator = NonLocal(d, d, reduction, panels=panels, segments=segments)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Picture) -> Picture:
        """(B * panels, N, M, d) -> the same shape."""
        return x + self.gamma * self.operator(x)


@dataclass(frozen=True)
class NonLocalAttention:
    """SAGAN's attention as a mixer, without the residual form's gamma. It knows no positions and has no windows."""

    reduction: int = 4
    kind: str = field(default="non_local", init=False)

    def __post_init__(self) -> None:
        if self.reduction < 1:
            raise ValueError(f"reduction must be positive, got {self}")

    def build(self, place: Place) -> NonLocal:
        """The operator for a place."""
        require_supported(place, self.kind, bias=("panel", "none"))
        return NonLocal(
            place.d,
            place.d_o,
            self.reduction,
            panels=place.panels,
            stride=place.stride,
            segments=place.segments and place.panels > 1,
        )


def _append_panel_channels(tokens: Tensor, by_panel: Tensor, panels: int) -> Tensor:
    """Tokens (B, T, e) with the channels (panels, f) of the panel of each: (B, T, e + f)."""
    channels = by_panel.repeat_interleave(tokens.shape[1] // panels, 0)
    return torch.cat([tokens, channels.expand(tokens.shape[0], -1, -1)], -1)
