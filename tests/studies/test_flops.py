"""Parameters and FLOPs against counts by hand."""

import pytest
import torch
from torch import nn

from diptych_model import MSAC, Scale
from diptych_model.mixers import MIXERS, Place
from diptych_studies.flops import count_flops
from diptych_studies.mixers.convolution import PlainConvolution


def shape(*sizes: int) -> torch.Tensor:
    return torch.empty(*sizes, device="meta")


def test_a_multiply_add_counts_two() -> None:
    assert count_flops(nn.Linear(3, 5), shape(7, 3)) == 2 * 7 * 3 * 5
    convolution = PlainConvolution(3, 5).build(Place(3, 7, 11, 13, stride=2))
    assert count_flops(convolution, shape(2, 11, 13, 3)) == 2 * 2 * (6 * 7) * (3 * 5) * 3 * 7


def test_attention_over_all_positions_is_counted_whether_or_not_gradients_flow() -> None:
    T, d, d_phi = 3 * 5, 7, 11
    scales = [Scale(1, 1, heads=2, d_a=3, d_o=4), Scale(1, 1, heads=2, d_a=3, d_o=4)]
    msac = MSAC(d, 3, 5, scales, d_phi=d_phi)
    projections, attention, joined = T * d * 2 * (3 + 3 + 4), 2 * T * T * (3 + 4), T * 2 * 4 * 4
    expected = 2 * (2 * (projections + attention + joined) + T * 2 * 4 * d_phi)
    assert count_flops(msac, shape(1, 3, 5, d)) == expected
    with torch.no_grad():
        assert count_flops(msac, shape(1, 3, 5, d)) == expected
    torchs = nn.MultiheadAttention(6, 2, batch_first=True).eval()
    tokens = shape(1, 5, 6)
    assert count_flops(torchs, tokens, tokens, tokens) == 2 * (4 * 5 * 6 * 6 + 2 * 5 * 5 * 6)


def test_counting_allocates_nothing_and_leaves_the_module_as_it_was() -> None:
    with torch.device("meta"):
        huge = nn.Linear(10**6, 10**6)
    assert count_flops(huge, shape(1, 10**6)) == 2 * 10**12
    module = nn.Sequential(PlainConvolution().build(Place(3, 4, 5, 7)), nn.BatchNorm2d(5))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    count_flops(module, torch.ones(2, 5, 7, 3))
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert module(torch.ones(2, 5, 7, 3)).shape == (2, 5, 7, 4)


T, D = 60, 8  # two panels of 6 x 5 positions, 8 channels in and out
BY_HAND = {
    # Multiply-adds. The window takes in both panels, 16 channels.
    "convolution": T * 2 * D * 9 * D,
    # Per scale 4 heads of 16: H_Q, H_K, H_V, attention, H_Y; the second has a depthwise 3x3 before; H_phi.
    "msac": 2 * (T * D * 3 * 64 + 2 * T * T * 64 + T * 64 * 16) + T * D * 9 + T * 32 * D,
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_the_count_of_an_operator_is_the_one_by_hand(kind: str) -> None:
    mixer = MIXERS[kind]().build(Place(D, D, 6, 5, panels=2))
    assert count_flops(mixer, shape(2, 6, 5, D)) == 2 * BY_HAND[kind]
