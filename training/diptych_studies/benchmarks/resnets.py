"""ResNets with attention in the place of their convolutions, counted and laid beside the table of the paper
(Ramachandran et al. 2019, Table 1).
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from diptych.console import format_table
from diptych_model.mixers import Mixer, Msac, Place
from diptych_model.operators import Scale
from diptych_studies.flops import count_flops, count_parameters
from diptych_studies.mixers import AttentionAugmented, CrossCovariance, StandAlone
from diptych_studies.mixers.convolution import PlainConvolution
from diptych_studies.mixers.non_local import NonLocalBlock
from diptych_studies.mixers.squeeze_excitation import SqueezeExcitation
from diptych_studies.mixers.stand_alone import AttentionStem, average_pool
from diptych_studies.networks.resnet import DEPTHS, ResNet

PIXELS, CLASSES = 224, 1000
PAPER = StandAlone(k=7, heads=8)
# Parameters in millions and FLOPs in billions: convolution, convolutional stem and attention, attention everywhere.
PUBLISHED = {
    26: ((13.7, 4.7), (10.3, 4.5), (10.3, 4.7)),
    38: ((19.6, 6.5), (14.1, 5.7), (14.1, 6.0)),
    50: ((25.6, 8.2), (18.0, 7.0), (18.0, 7.2)),
}
# The same of networks that channels' attention, or attention beside the convolution, was added to (Bello et al. 2019).
DEEPER = {101: (3, 4, 23, 3)}
EXCITED = {50: (28.1, 8.2), 101: (49.3, 15.6)}
AUGMENTED = {50: (25.8, 8.3), 101: (45.4, 16.1)}
BEFORE_POOLING = (
    "attention at every position, then the pooling of strided blocks; q.r counted for each of the k^2 keys, as the "
    "formula stands; a multiply-add is two, softmax and norms are not counted"
)
STEM = (
    "the stem is published as a formula of its values only; our scores are q.k, our values one product with W_ab; "
    "relative embeddings (0.10 B) and a product for each of the four mixtures (0.06 B) would explain most of the rest"
)


NORMS = (
    "scales and shifts of normalisation are counted; without them the two networks below have 14.149 and 14.142, which "
    "is the table's 14.1, and every other row rounds to the table's figure as before, but for convolutional ResNet-50 "
    "(25.504 for 25.6)"
)
BESIDE = (
    "kappa = 2 upsilon = 0.2, 8 heads of 20 key channels at least, in the last three stages; in the first of them "
    "attention runs over a quarter of the positions and is enlarged again"
)


@dataclass(frozen=True)
class Count:
    """A network's parameters and FLOPs at 224 pixels; the paper's, in millions and billions, where it has them."""

    network: str
    variant: str
    parameters: int
    flops: int
    published_parameters: float | None = None
    published_flops: float | None = None
    explanation: str = ""

    @property
    def parameters_off(self) -> float | None:
        """Percent above the paper's."""
        return _compute_excess(self.parameters / 1e6, self.published_parameters)

    @property
    def flops_off(self) -> float | None:
        """Percent above the paper's."""
        return _compute_excess(self.flops / 1e9, self.published_flops)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the differences in percent."""
        return asdict(self) | {"parameters_off": self.parameters_off, "flops_off": self.flops_off}


@dataclass(frozen=True)
class _PooledFirst:
    """The other reading of a stride: the picture is averaged before the attention, which then has fewer positions."""

    mixer: Mixer
    kind: str = "pooled_first"

    def build(self, place: Place) -> nn.Module:
        rows, cols = place.grid
        inner = self.mixer.build(replace(place, rows=rows, cols=cols, stride=1))
        return nn.Sequential(_Average(place.stride), inner)


class _Average(nn.Module):
    def __init__(self, s: int) -> None:
        super().__init__()
        self.s = s

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return average_pool(x, self.s)


@dataclass(frozen=True)
class _WithoutPositions:
    """The mixer without relative embeddings."""

    mixer: Mixer
    kind: str = "without_positions"

    def build(self, place: Place) -> nn.Module:
        return self.mixer.build(replace(place, bias="none"))


@dataclass(frozen=True)
class Beside:
    """Attention augmentation of a stage; at `halved` the attention is over positions averaged two by two."""

    halved: bool = False
    kind: str = "beside"

    def build(self, place: Place) -> nn.Module:
        """The operator for a place."""
        mixer = AttentionAugmented(heads=8, kappa=max(0.2, 160 / place.d_o), upsilon=0.1)
        return HalvedAttention(mixer, place) if self.halved else mixer.build(place)


class HalvedAttention(nn.Module):
    """Concat[Conv(X), MHA(X)] as `AttentionAugmentedConvolution`, with the attention at half the rows and columns."""

    def __init__(self, mixer: AttentionAugmented, place: Place) -> None:
        super().__init__()
        self.stride, self.grid = 2 * place.stride, place.grid
        self.convolution = mixer.build(place).convolution
        self.attention = mixer.build(replace(place, stride=self.stride)).attention

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, N, M, d) -> (B, ceil(N / s), ceil(M / s), d_o)."""
        pooled = F.avg_pool2d(x.permute(0, 3, 1, 2), 3, self.stride, 1, count_include_pad=False)
        attended = self.attention(pooled.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        enlarged = F.interpolate(attended, self.grid, mode="bilinear").permute(0, 2, 3, 1)
        return torch.cat([self.convolution(x), enlarged], -1)


def compare_with_paper(depths: Iterable[int] = tuple(DEPTHS)) -> list[Count]:
    """Table 1 of the paper counted anew, then SE- and AA-ResNets beside theirs, then other readings of the table, then
    our own operators in ResNet-50.

    Takes seconds: nothing is computed and no weights are held.
    """
    rows = []
    for depth in depths:
        settings = ({}, {"spatial": PAPER}, {"spatial": PAPER, "stem": lambda width: AttentionStem(3, width)})
        variants = ("convolution", "convolutional stem + attention", "attention everywhere")
        notes = (NORMS if depth == 38 else "", BEFORE_POOLING, STEM)
        for variant, kwargs, published, note in zip(variants, settings, PUBLISHED[depth], notes, strict=True):
            rows.append(_count_network(depth, variant, published, note, **kwargs))
    return [*rows, *_with_channels_or_attention(), *_other_readings(), *_our_own()]


def resnets_text(rows: Iterable[Count]) -> str:
    """The counts as a table, and below it the text of each remark."""
    rows = list(rows)
    notes = {
        note: f"[{number}]"
        for number, note in enumerate(dict.fromkeys(r.explanation for r in rows if r.explanation), 1)
    }
    header = ("network", "in the place of 3x3", "parameters (M)", "paper", "off", "FLOPs (B)", "paper", "off", "")
    cells = [
        (
            row.network,
            row.variant,
            f"{row.parameters / 1e6:.2f}",
            _format_cell(row.published_parameters, "{:.1f}"),
            _format_cell(row.parameters_off, "{:+.1f}%"),
            f"{row.flops / 1e9:.2f}",
            _format_cell(row.published_flops, "{:.1f}"),
            _format_cell(row.flops_off, "{:+.1f}%"),
            notes.get(row.explanation, ""),
        )
        for row in rows
    ]
    return "\n".join([format_table(header, cells), "", *(f"{mark} {note}" for note, mark in notes.items())])


def _with_channels_or_attention() -> Iterator[Count]:
    augmented = (PlainConvolution(), Beside(halved=True), Beside(), Beside())
    for depth in EXCITED:
        yield _count_network(
            depth,
            "convolution, squeeze-and-excitation of the branch",
            EXCITED[depth],
            "reduction 16, on what a branch adds, as Hu et al. 2018 have it",
            scaled=lambda d: SqueezeExcitation(d, 16),
        )
        yield _count_network(depth, "convolution + attention beside it", AUGMENTED[depth], BESIDE, spatial=augmented)


def _other_readings() -> Iterator[Count]:
    published = PUBLISHED[50][1]
    yield _count_network(
        50,
        "reading: pooled before the attention",
        published,
        "not the paper's: the three strided blocks would attend and project at a quarter of the positions",
        spatial=_PooledFirst(PAPER),
    )
    yield _count_network(
        50,
        "reading: no products with r",
        published,
        "a lower bound of counting q.r once for each row and column offset, 2 k of them, which is how it is computed",
        spatial=_WithoutPositions(PAPER),
    )


def _our_own() -> Iterator[Count]:
    narrow = Msac((Scale(1, 1), Scale(3, 3, separable=True)))
    note = "our addition; attends all positions of the picture, 3136 of them in the first stage"
    yield _count_network(50, "MSAC {1, 3}, 4 heads of 16", None, note, spatial=narrow)
    yield _count_network(
        50, "stand-alone attention, grouped heads", None, "our addition", spatial=replace(PAPER, grouped=True)
    )
    yield _count_network(50, "cross-covariance attention", None, "our addition", spatial=CrossCovariance(heads=8))
    yield _count_network(
        50,
        "convolution, a non-local block after stage 3",
        None,
        "our addition; reduction 8, as Zhang et al. 2018 have it",
        after={3: lambda d: NonLocalBlock(d, 8)},
    )


def _count_network(
    depth: int, variant: str, published: tuple[float, float] | None, explanation: str, **settings: Any
) -> Count:
    with torch.device("meta"):
        network = ResNet((DEPTHS | DEEPER)[depth], CLASSES, PIXELS, PIXELS, **settings)
        pictures = torch.empty(1, PIXELS, PIXELS, 3)
    return Count(
        f"ResNet-{depth}",
        variant,
        count_parameters(network),
        count_flops(network, pictures),
        *(published or (None, None)),
        explanation=explanation,
    )


def _compute_excess(ours: float, published: float | None) -> float | None:
    return None if published is None else 100 * (ours / published - 1)


def _format_cell(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
