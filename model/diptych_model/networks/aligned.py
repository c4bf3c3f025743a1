"""The aligned-pair network: one picture laid over another, and the log-odds that both were made of one photo.

A small network, for it sees what is left to tell once two pictures lie on one grid: whether they differ as a copy does
from its original, all over or where something was laid over it, or as look-alikes do. The pictures of a pair share the
first layers; what they differ in, have in common and sum up to goes through the rest, beside how each colour of both
correlates in windows around every place.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

WEIGHTS = "aligned.safetensors"
STRIDE = 8  # pixels from one place of the deepest layers to the next; a grid's sides are multiples of it
CELL = 4  # pixels of the cells that are compared
WINDOWS = (1, 3, 5)  # cells of the windows in which colours are compared
HEADS = 4  # places that are looked at beside the mean and the strongest
_NOISE = 1e-4  # variance that a constant counts with

Pair = Float[Tensor, "batch 7 rows cols"]
Grid = Float[Tensor, "batch d rows cols"]
Shown = Float[Tensor, "batch 1 rows cols"]


class AlignedPairNetwork(nn.Module):
    """Pictures laid over each other, (B, 7, H, W) in [0, 1], to the log-odds of a copy (B,).

    The channels are red, green and blue of one picture, those of the other, and 1 where both are shown, else 0; H and W
    are multiples of 8. In whatever order the pictures come, the log-odds are the same. `widths` are the channels of the
    two first layers, of what is made of both pictures, and of the deepest layers.
    """

    def __init__(self, widths: tuple[int, int, int, int] = (16, 32, 48, 64)) -> None:
        super().__init__()
        fine, coarse, merged, deep = widths
        self.stem = nn.Sequential(nn.Conv2d(3, fine, 3, 2, 1), nn.ReLU(), nn.Conv2d(fine, coarse, 3, 2, 1))
        self.norm = PlaceNorm(coarse)
        self.merge = nn.Sequential(nn.Conv2d(3 * coarse + 12 * len(WINDOWS), merged, 1), PlaceNorm(merged), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(merged, deep, 3, 2, 1), PlaceNorm(deep), nn.ReLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(deep, deep, 3, 1, reach, dilation=reach), PlaceNorm(deep), nn.ReLU())
            for reach in (1, 2)
        )
        self.attention = nn.Conv2d(deep, HEADS, 1)
        self.answer = nn.Sequential(nn.Linear((2 + HEADS) * deep, deep), nn.ReLU(), nn.Linear(deep, 1))

    def forward(self, pair: Pair) -> Float[Tensor, " batch"]:
        """(B, 7, H, W) -> (B,)."""
        a, b, shown = pair.split([3, 3, 1], 1)
        fine, coarse = ((F.avg_pool2d(shown, size) > 0.9).to(pair.dtype) for size in (CELL, STRIDE))
        compared = _correlate_windows(a, b)
        a, b = (F.relu(self.norm(self.stem(picture * 4 - 2))) for picture in (a, b))
        x = self.down(fine * self.merge(torch.cat([(a - b).abs(), a * b, a + b, compared], 1)))
        for block in self.blocks:
            x = x + block(x * coarse)
        return self.answer(self._pool_places(x, coarse)).squeeze(1)

    def _pool_places(self, x: Grid, shown: Shown) -> Float[Tensor, "batch pooled"]:
        """The mean, the maximum and the weighted mean of each head over the places shown."""
        places, shown = x.flatten(2), shown.flatten(2)
        hidden = 1e4 * (1 - shown)
        mean = (places * shown).sum(2) / shown.sum(2).clamp(min=1)
        highest = F.relu((places - hidden).amax(2))
        looks = (self.attention(x).flatten(2) - hidden).softmax(2)
        return torch.cat([mean, highest, (looks @ places.transpose(1, 2)).flatten(1)], 1)


def _correlate_windows(a: Grid, b: Grid) -> Float[Tensor, "batch compared rows_out cols_out"]:
    """The correlation of two pictures in windows around every cell: (B, 3, H, W) twice -> (B, 36, H / 4, W / 4).

    For each colour and each of the `WINDOWS` there are the correlation, the lower and the higher deviation, and the
    difference of the means.
    """
    count = a.shape[1]
    cells = F.avg_pool2d(torch.cat([a, b, a * a, b * b, a * b], 1), CELL)
    found = []
    for window in WINDOWS:
        means = F.avg_pool2d(cells, window, 1, window // 2, count_include_pad=False)
        mean_a, mean_b, square_a, square_b, product = means.split(count, 1)
        variance_a = (square_a - mean_a * mean_a).clamp(min=0) + _NOISE
        variance_b = (square_b - mean_b * mean_b).clamp(min=0) + _NOISE
        together = (product - mean_a * mean_b) * (variance_a * variance_b).rsqrt()
        lower, higher = torch.minimum(variance_a, variance_b).sqrt(), torch.maximum(variance_a, variance_b).sqrt()
        found += [together, 4 * lower, 4 * higher, 2 * (mean_a - mean_b).abs()]
    return torch.cat(found, 1)


class PlaceNorm(nn.Module):
    """The channels of every place normalised among themselves, then scaled and shifted: contrast and padding say
    nothing, and a place is the same in a grid of any size.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels, 1, 1)), nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x: Grid) -> Grid:
        """(B, C, H, W) -> (B, C, H, W)."""
        away = x - x.mean(1, keepdim=True)
        return away * (away.square().mean(1, keepdim=True) + 1e-5).rsqrt() * self.weight + self.bias


def save_aligned(network: AlignedPairNetwork, directory: Path) -> None:
    """Write the weights of a network of the released widths into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, directory / WEIGHTS)


def load_aligned(directory: Path) -> AlignedPairNetwork:
    """Return the network whose weights `save_aligned` wrote, in evaluation mode."""
    network = AlignedPairNetwork()
    network.load_state_dict(load_file(directory / WEIGHTS))
    return network.eval()
