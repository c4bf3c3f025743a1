"""Multiscale self attentive convolutions as a mixer."""

from dataclasses import dataclass, field, replace

import torch

from diptych_model.mixers.mixer import Place
from diptych_model.operators import MSAC, SAC, Scale


@dataclass(frozen=True)
class Msac:
    """`MSAC` over the positions of all panels. A place with a stride gives it to every scale.

    `crossing` above 0 is where learning begins, not what is learnt: every other SAC then starts with its own panel so
    much lower in the bias, the ones between with the other panel. Of those that look across, the plain ones of one head
    start by taking half of what they see from what is there, so that the first thing the network knows is what two
    panels do not share. It saves the greater part of the learning; it needs the *relative* segment.
    """

    scales: tuple[Scale, ...] = (Scale(1, 1), Scale(3, 3, separable=True))
    crossing: float = 0.0
    kind: str = field(default="msac", init=False)

    def __post_init__(self) -> None:
        if not self.scales:
            raise ValueError("the mixer 'msac' needs at least one scale, got none")

    def build(self, place: Place) -> MSAC:
        """The operator for a place; it starts at half its strength, since it is added to its input."""
        scales = [replace(scale, stride=scale.stride * place.stride) for scale in self.scales]
        msac = MSAC(
            place.d,
            place.rows,
            place.cols,
            scales,
            d_phi=place.d_o,
            panels=place.panels,
            bias=place.bias,
            segments=place.segments,
            open_seam=place.open_seam,
        )
        with torch.no_grad():
            msac.H_phi.mul_(0.5)
            if self.crossing:
                _begin_across(msac, self.crossing)
        return msac


def _begin_across(msac: MSAC, crossing: float) -> None:
    """Set the segment biases of the SACs apart, and let those that look across subtract the panel that they see."""
    d = msac.sacs[0].d
    basis = torch.linalg.qr(torch.randn(d, d)).Q
    given = place = 0
    for number, sac in enumerate(msac.sacs):
        if sac.bias is None or len(sac.bias.table) < 2:
            raise ValueError("crossing sets what is seen across the seam apart: it needs segment = 'relative'")
        looks_across, d_o = number % 2 == 0, sac.scale.d_o
        sac.bias.table[0 if looks_across else 1] -= crossing
        if looks_across and _is_plain(sac) and given + d_o <= d:
            seen = basis[given : given + d_o]
            sac.H_V.copy_(seen.view(d_o, d, 1, 1))
            sac.H_Y.copy_(torch.eye(d_o).view(d_o, d_o, 1, 1))
            msac.H_phi[:, place : place + d_o, 0, 0] = -0.5 * seen.T
            given += d_o
        place += d_o


def _is_plain(sac: SAC) -> bool:
    """True for one head of filters that see single positions, with nothing beside it."""
    return replace(sac.scale, d_a=1, d_o=1) == Scale(1, 1, heads=1, d_a=1, d_o=1)
