"""The network that says what is lost where one of two copies goes and the other stays.

A small one, for it sees what is left to tell once one picture is laid over the other on the grid of the one that goes:
as a whole, and in windows of its own pixels, in which noise, sharpening and JPEG's blocks show.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

WEIGHTS = "losses.safetensors"
OUTPUTS = 11  # log-odds, as `diptych_runtime.closer_look.comparison.LOSSES` names them
_CHANNELS = 11  # of what the layers see: pixels, differences, fine detail of both, masks, differences of brightness
_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue in the brightness that a grey copy keeps
_SMALL = 0.05  # a difference of colours from which on more of it says little
_STRIDE = 16  # pixels from one of the deepest places to the next


class LossesNetwork(nn.Module):
    """The views of pairs, uint8 (B, 2, 2, S, S, 8) as `diptych_runtime.closer_look.comparison.see_pair` makes them, to
    the log-odds (B, 2, 11) of what is lost where the first picture goes and where the second does.

    Either answer knows what was seen both ways: of a pair it is the other one that was edited. S is a multiple of 16,
    `widths` are the channels of the layers.
    """

    def __init__(self, widths: tuple[int, ...] = (24, 32, 48, 64, 64), hidden: int = 96) -> None:
        super().__init__()
        strides = (2, 2, 2, 2, 1)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
                for before, width, stride in zip((_CHANNELS, *widths), widths, strides, strict=False)
            )
        )
        self.answer = nn.Sequential(
            nn.Linear(8 * widths[-1], hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, OUTPUTS)
        )

    def forward(self, views: UInt8[Tensor, "batch 2 2 rows cols 8"]) -> Float[Tensor, "batch 2 11"]:
        """(B, 2, 2, S, S, 8) -> (B, 2, 11)."""
        seen = self._summarise_views(views.flatten(0, 1)).reshape(views.shape[0], 2, -1)
        return self.answer(torch.cat([seen, seen.flip(1)], 2))

    def _summarise_views(self, views: UInt8[Tensor, "batch 2 rows cols 8"]) -> Float[Tensor, "batch features"]:
        """The features of both views of one reading: (B, 2, S, S, 8) -> (B, 4 * the last width)."""
        batch = views.shape[0]
        pixels = views.flatten(0, 1).permute(0, 3, 1, 2).float() / 255
        going, kept, masks = pixels.split([3, 3, 2], 1)
        shown, within = masks.split([1, 1], 1)
        away = (kept - going) * shown
        brightness = (away * away.new_tensor(_LUMA).view(3, 1, 1)).sum(1, keepdim=True)
        seen = [
            going - 0.5,
            _compress_values(away, _SMALL),
            _fine_detail(going) * within,
            _fine_detail(kept) * shown,
            masks,
        ]
        seen.append(_compress_values(brightness, _SMALL / 2))
        found = self.layers(torch.cat(seen, 1))
        inside = (F.avg_pool2d(within, _STRIDE) > 0).to(found.dtype)
        found = found * inside
        mean = found.sum((2, 3)) / inside.sum((2, 3)).clamp(min=1)
        return torch.cat([mean, found.amax((2, 3))], 1).reshape(batch, -1)


def _fine_detail(pixels: Float[Tensor, "batch 3 rows cols"]) -> Float[Tensor, "batch 1 rows cols"]:
    """The detail finer than three pixels, of the mean of the colours.

    It is compressed, so that noise and blocks show.
    """
    grey = pixels.mean(1, keepdim=True)
    detail = grey - F.avg_pool2d(grey, 3, 1, 1)
    return _compress_values(detail, _SMALL / 2)


def _compress_values(values: Tensor, small: float) -> Tensor:
    """The values compressed to -1 to 1; a value of `small` becomes one half."""
    return values / (values.abs() + small)


def save_losses(network: LossesNetwork, directory: Path) -> None:
    """Write the weights of a network of the released widths into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in network.state_dict().items()}, directory / WEIGHTS)


def load_losses(directory: Path) -> LossesNetwork:
    """Return the network whose weights `save_losses` wrote, in evaluation mode."""
    network = LossesNetwork()
    network.load_state_dict(load_file(directory / WEIGHTS))
    return network.eval()
