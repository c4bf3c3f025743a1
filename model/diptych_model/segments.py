"""Segment augmentation: how the network tells the two panels apart (section 6.1 of the MSAC paper)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from diptych_model.correspondence import resized_position

Panel = Float[Tensor, "batch rows cols d"]
Augmented = Float[Tensor, "batch rows cols width"]


class Segments(nn.Module):
    """x_seg and z_seg, *added* to two panels or *concatenated* as channels; nothing to add where the segment is
    *relative* or *none*.

    The panels are what the network concatenates: tokens, or with `seam = "pixels"` the pictures, before the stem.
    `d` are their channels, `grid` the positions along a side that the segments are made for; on a panel of another
    size they are resized. `width` is the number of channels after the augmentation. Concatenated segments begin about
    `neutral`, the value that says nothing.
    """

    CONCATENATED = 8

    def __init__(self, segment: str, d: int, grid: int, *, neutral: float = 0.0) -> None:
        super().__init__()
        self.mode, self.neutral = segment, neutral
        extra = self.CONCATENATED if segment == "concatenated" else 0
        self.width = d + extra
        if segment in ("added", "concatenated"):
            begin = neutral if extra else 0.0
            self.x_seg = nn.Parameter(begin + torch.randn(grid, grid, extra or d) * 0.02)
            self.z_seg = nn.Parameter(begin + torch.randn(grid, grid, extra or d) * 0.02)

    def forward(self, x: Panel, z: Panel) -> tuple[Augmented, Augmented]:
        """Panels (B, N, N, d) twice -> the same with the segments in them, (B, N, N, width)."""
        if self.mode not in ("added", "concatenated"):
            return x, z
        x_seg, z_seg = (resized_position(segment, x.shape[1]) for segment in (self.x_seg, self.z_seg))
        if self.mode == "added":
            return x + x_seg, z + z_seg
        return _beside(x, x_seg), _beside(z, z_seg)

    def alone(self, x: Panel) -> Augmented:
        """A panel that is in no pair, (B, N, N, d) -> (B, N, N, width): what is concatenated says nothing."""
        return _beside(x, x.new_tensor(self.neutral)) if self.mode == "concatenated" else x


def _beside(x: Panel, segment: Tensor) -> Augmented:
    return torch.cat([x, segment.to(x.dtype).expand(*x.shape[:3], Segments.CONCATENATED)], -1)
