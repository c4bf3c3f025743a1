"""EfficientNet-Lite (Tan and Le 2019, without squeeze-and-excitation and with ReLU6), an encoder that can begin with
weights that have seen ImageNet.

Every normalisation is folded into the convolution before it, so nothing in it depends on a batch.
"""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# Of each stage: expansion, channels, blocks, stride, window.
_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
# Of each version: how much wider and how much deeper than version 0.
_FACTORS = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2))
_STEM, _HEAD = 32, 1280
_MIDDLE = 5  # stages up to the last one of stride 16
_EPSILON = 1e-3  # of the normalisation that is folded


@dataclass(frozen=True)
class EfficientNetLite:
    """EfficientNet-Lite 0, 1 or 2 without its classifier.

    Features are the last maps of stride 16 and of stride 32 side by side, each of unit length at every position, the
    coarser one enlarged; the description is the generalised mean (GeM, p = `power`) of the last map, of unit length.
    The first `still` stages are never trained: that is where learning costs most, and edges are edges everywhere.
    Without `depthwise` no depthwise window is: they hold a hundredth of the weights, and on a processor most of the
    time of a step is theirs.
    """

    version: int = 0
    power: float = 3.0
    still: int = 3
    rate: float = 0.1
    depthwise: bool = True
    kind: str = field(default="efficientnet-lite", init=False)

    def __post_init__(self) -> None:
        if self.version not in range(len(_FACTORS)):
            raise ValueError(f"there is EfficientNet-Lite 0, 1 and 2, got version {self.version}")
        if self.power < 1 or self.rate < 0 or not 0 <= self.still <= len(_STAGES):
            raise ValueError(f"power must be 1 or more, rate 0 or more and still 0 to {len(_STAGES)}, got {self}")

    @property
    def reduction(self) -> int:
        """The width of a feature in pixels."""
        return 16

    @property
    def divisor(self) -> int:
        """The number of pixels that the side of a panel must be a multiple of."""
        return 32

    @property
    def width(self) -> int:
        """Channels of a feature: of both maps."""
        stages = self.stages
        return stages[_MIDDLE - 1][1] + stages[-1][1]

    @property
    def description_width(self) -> int:
        """Channels of the description."""
        return _HEAD

    @property
    def stages(self) -> list[tuple[int, int, int, int, int]]:
        """Expansion, channels, blocks, stride and window of each stage of this version."""
        wide, deep = _FACTORS[self.version]
        last = len(_STAGES) - 1
        return [
            (e, _round_width(d * wide), n if stage in (0, last) else -int(-n * deep // 1), s, k)
            for stage, (e, d, n, s, k) in enumerate(_STAGES)
        ]

    def build(self, channels: int = 3) -> "EfficientNetLiteEncoder":
        """The module, with random weights."""
        return EfficientNetLiteEncoder(self, channels)


class EfficientNetLiteEncoder(nn.Module):
    """`EfficientNetLite` as a module."""

    def __init__(self, settings: EfficientNetLite, channels: int = 3) -> None:
        super().__init__()
        self.power, self.still = settings.power, settings.still
        self.stem = Convolution(channels, _STEM, 3, stride=2)
        d, stages = _STEM, []
        for expansion, width, count, stride, window in settings.stages:
            blocks = []
            for block in range(count):
                shape = (d, width, expansion, window)
                blocks.append(InvertedResidual(*shape, stride=1 if block else stride, depthwise=settings.depthwise))
                d = width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)
        self.head = Convolution(d, _HEAD, 1)

    def forward(
        self, pictures: Float[Tensor, "batch channels height columns"], panels: int = 1
    ) -> tuple[Float[Tensor, "batch rows cols d"], Float[Tensor, "described pooled"]]:
        """(B, channels, H, W) in [0, 1] -> features (B, H / 16, W / 16, width) and descriptions (B * panels, 1280)."""
        learning = torch.is_grad_enabled()
        with torch.set_grad_enabled(learning and self.still == 0):
            x = self.stem((pictures * 255 - 127) / 128)
        maps = []
        for number, stage in enumerate(self.stages, 1):
            with torch.set_grad_enabled(learning and number > self.still):
                x = stage(x)
            if number in (_MIDDLE, len(self.stages)):
                maps.append(x)
        middle, last = maps
        last = F.interpolate(last, middle.shape[2:], mode="bilinear")
        features = torch.cat([F.normalize(part.permute(0, 2, 3, 1), dim=-1) for part in (middle, last)], -1)
        seen = self.head(x).clamp(min=1e-6).float()
        means = [(panel**self.power).mean((2, 3)) for panel in seen.chunk(panels, 3)]
        return features, F.normalize(torch.stack(means, 1).flatten(0, 1) ** (1 / self.power), dim=-1)


class InvertedResidual(nn.Module):
    """Expansion, a depthwise window, projection (Sandler et al. 2018), beside a shortcut where sizes allow one."""

    def __init__(self, d_in: int, d: int, expansion: int, window: int, *, stride: int, depthwise: bool = True) -> None:
        super().__init__()
        wide = d_in * expansion
        self.expand = nn.Identity() if expansion == 1 else Convolution(d_in, wide, 1)
        self.depthwise = Convolution(wide, wide, window, stride=stride, groups=wide, trained=depthwise)
        self.project = Convolution(wide, d, 1, linear=True)
        self.shortcut = stride == 1 and d_in == d

    def forward(self, x: Float[Tensor, "batch d_in height width"]) -> Float[Tensor, "batch d height_out width_out"]:
        """(B, d_in, H, W) -> (B, d, ceil(H / stride), ceil(W / stride))."""
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.shortcut else y


class Convolution(nn.Module):
    """A convolution padded as TensorFlow does (one more below and to the right), and ReLU6 unless it is linear. One
    that is not `trained` passes gradients on and takes none.
    """

    def __init__(
        self,
        d_in: int,
        d: int,
        window: int,
        *,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
        trained: bool = True,
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(d_in, d, window, stride=stride, groups=groups)
        self.linear, self.trained, missing = linear, trained, window - stride
        before = missing // 2
        # Only where both sides differ is the padding a step of its own.
        self.uneven = missing - before if before != missing - before else 0
        self.convolution.padding = (before, before) if not self.uneven else (0, 0)
        self.before = before

    def forward(self, x: Float[Tensor, "batch d_in height width"]) -> Float[Tensor, "batch d height_out width_out"]:
        """(B, d_in, H, W) -> (B, d, H / stride, W / stride), sides being multiples of the stride."""
        if self.uneven:
            x = F.pad(x, (self.before, self.uneven, self.before, self.uneven))
        x = self.convolution(x) if self.trained else self._convolve_frozen(x)
        return x if self.linear else F.relu6(x)

    def _convolve_frozen(
        self, x: Float[Tensor, "batch d height width"]
    ) -> Float[Tensor, "batch d height_out width_out"]:
        """The convolution with weights that take no gradient."""
        conv = self.convolution
        assert conv.bias is not None
        # The gradient of a strided one takes a processor sixty times as long in bfloat16 as in float32.
        device = x.device.type
        mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        exact = mixed and conv.stride != (1, 1)
        with torch.autocast(device, enabled=False) if exact else nullcontext():
            x = x.float() if exact else x
            return F.conv2d(x, conv.weight.detach(), conv.bias.detach(), conv.stride, conv.padding, groups=conv.groups)


def load_imagenet(encoder: EfficientNetLiteEncoder, state: Mapping[str, Tensor]) -> None:
    """Give the encoder the weights that `efficientnet-lite-pytorch` names, each normalisation folded into its
    convolution.

    Raises `ValueError` where the state lacks one or has one of another shape: it is of another version.
    """
    with torch.no_grad():
        for mine, convolution, norm in _weight_sources(encoder):
            weight, scale = state.get(f"{convolution}.weight"), state.get(f"{norm}.weight")
            if weight is None or scale is None or weight.shape != mine.weight.shape:
                raise ValueError(
                    f"the weights do not fit: {convolution} should be {tuple(mine.weight.shape)}, with the "
                    f"normalisation {norm}; "
                    f"got {None if weight is None else tuple(weight.shape)}; they are of another version"
                )
            factor = scale / (state[f"{norm}.running_var"] + _EPSILON).sqrt()
            mine.weight.copy_(weight * factor[:, None, None, None])
            assert mine.bias is not None
            mine.bias.copy_(state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * factor)


def _weight_sources(encoder: EfficientNetLiteEncoder) -> Iterator[tuple[nn.Conv2d, str, str]]:
    """Each convolution with the names of the published weights that it is made of."""
    yield encoder.stem.convolution, "_conv_stem", "_bn0"
    blocks = [block for stage in encoder.stages for block in cast(nn.Sequential, stage)]
    for number, block in enumerate(cast(list[InvertedResidual], blocks)):
        name = f"_blocks.{number}"
        if isinstance(block.expand, Convolution):
            yield block.expand.convolution, f"{name}._expand_conv", f"{name}._bn0"
        yield block.depthwise.convolution, f"{name}._depthwise_conv", f"{name}._bn1"
        yield block.project.convolution, f"{name}._project_conv", f"{name}._bn2"
    yield encoder.head.convolution, "_conv_head", "_bn1"


def _round_width(width: float) -> int:
    """The nearest multiple of 8 that is no more than a tenth smaller, as in the paper's code."""
    near = max(8, int(width + 4) // 8 * 8)
    return near + 8 if near < 0.9 * width else near
