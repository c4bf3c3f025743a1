"""Segment augmentation: how the trunk tells the two panels apart (section 6.1 of the MSAC paper)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.config import PairConfig

Tokens = Float[Tensor, "batch rows cols d"]
Augmented = Float[Tensor, "batch rows cols width"]


class Segments(nn.Module):
    """x_seg and z_seg, added to the tokens or concatenated as channels; nothing to add where the segment is *relative*
    or *none*.

    `width` is the number of channels after the augmentation.
    """

    CONCATENATED = 8

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.mode = config.segment
        extra = self.CONCATENATED if self.mode == "concatenated" else 0
        d, grid = config.trunk_width, config.grid // config.merge
        self.width = d + extra
        if self.mode in ("added", "concatenated"):
            self.x_seg = nn.Parameter(torch.randn(grid, grid, extra or d) * 0.02)
            self.z_seg = nn.Parameter(torch.randn(grid, grid, extra or d) * 0.02)

    def forward(self, tokens_a: Tokens, tokens_b: Tokens) -> tuple[Augmented, Augmented]:
        """Tokens (B, N, M, d) twice -> the same with the segments in them, (B, N, M, width)."""
        if self.mode == "added":
            return tokens_a + self.x_seg, tokens_b + self.z_seg
        if self.mode == "concatenated":
            return _beside(tokens_a, self.x_seg), _beside(tokens_b, self.z_seg)
        return tokens_a, tokens_b


def _beside(tokens: Tokens, segment: Float[Tensor, "rows cols extra"]) -> Augmented:
    return torch.cat([tokens, segment.expand(tokens.shape[0], -1, -1, -1)], -1)
