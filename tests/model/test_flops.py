"""Parameters and FLOPs against counts by hand."""

import pytest
import torch
from torch import nn

from diptych_model import MSAC, Scale
from diptych_model.flops import count_flops, count_parameters
from diptych_model.mixers import MIXERS, Place, PlainConvolution, StandAlone


def shape(*sizes: int) -> torch.Tensor:
    return torch.empty(*sizes, device="meta")


def test_what_is_frozen_is_no_parameter() -> None:
    module = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5))
    assert count_parameters(module) == 3 * 5 + 5 + 2 * 5
    module[0].requires_grad_(False)
    assert count_parameters(module) == 2 * 5


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


def test_local_attention_counts_as_its_formula_and_performs_more() -> None:
    T, d, d_o, k = 11 * 13, 3, 8, 5
    projections, attention = 3 * T * d * d_o, T * k * k * d_o
    embedded = StandAlone(k, heads=2).build(Place(d, d_o, 11, 13))
    assert count_flops(embedded, shape(1, 11, 13, d)) == 2 * (projections + 3 * attention)
    bare = StandAlone(k, heads=2).build(Place(d, d_o, 11, 13, bias="none"))
    assert count_flops(bare, shape(1, 11, 13, d)) == 2 * (projections + 2 * attention)
    # 3 x 4 blocks of 4 x 4 queries, each with 8 x 8 keys.
    assert count_flops(bare, shape(1, 11, 13, d), performed=True) == 2 * (projections + 2 * (12 * 16) * 64 * d_o)
    faced = StandAlone(k, heads=2).build(Place(d, d_o, 11, 13, panels=2))
    assert count_flops(faced, shape(2, 11, 13, d)) == 2 * 2 * (projections + 2 * 3 * attention)


def test_a_correction_stays_within_its_module() -> None:
    local, plain = StandAlone(3, heads=2).build(Place(3, 4, 11, 13)), PlainConvolution().build(Place(4, 5, 11, 13))
    twice = nn.Sequential(local, plain, nn.Linear(5, 3), local)
    expected = (
        2 * count_flops(local, shape(1, 11, 13, 3)) + count_flops(plain, shape(1, 11, 13, 4)) + 2 * 11 * 13 * 5 * 3
    )
    assert count_flops(twice, shape(1, 11, 13, 3)) == expected


def test_counting_allocates_nothing_and_leaves_the_module_as_it_was() -> None:
    with torch.device("meta"):
        huge = nn.Linear(10**6, 10**6)
    assert count_flops(huge, shape(1, 10**6)) == 2 * 10**12
    module = nn.Sequential(StandAlone(3, heads=2).build(Place(3, 4, 5, 7)), nn.BatchNorm2d(5))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    count_flops(module, torch.ones(2, 5, 7, 3))
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert module(torch.ones(2, 5, 7, 3)).shape == (2, 5, 7, 4)
    assert not [part for part in module.modules() if part._forward_hooks or part._forward_pre_hooks]


T, D = 60, 8  # two panels of 6 x 5 positions, 8 channels in and out
CONVOLUTION = T * 2 * D * 9
BY_HAND = {
    # Multiply-adds. The window takes in both panels, 16 channels.
    "convolution": CONVOLUTION * D,
    # W_1 sees the means of both panels and gives a quarter of the channels; two pictures of one position.
    "squeeze_excitation": CONVOLUTION * D + 2 * (2 * D * 2 + 2 * D),
    # q, k, v and the output; scores and values.
    "transformer": T * 4 * D * D + 2 * T * T * D,
    # Self-attention within panels of 30, cross-attention to the 30 of the other.
    "decoder": T * 8 * D * D + 4 * T * 30 * D,
    # Keys, queries and values of 2 channels, and back to 8.
    "non_local": T * 4 * D * 2 + 2 * T * T * 2,
    # d_k = 8, d_v = 4: a convolution of 4 channels; q, k, v, W^O; scores, values, and q . r for 12 rows and 10 columns.
    "attention_augmented": CONVOLUTION * 4 + T * (D * (8 + 8 + 4) + 4 * 4) + T * T * (8 + 4) + T * 8 * (2 * 6 + 2 * 5),
    # Per scale 4 heads of 16: H_Q, H_K, H_V, attention, H_Y; the second has a depthwise 3x3 before; H_phi.
    "msac": 2 * (T * D * 3 * 64 + 2 * T * T * 64 + T * 64 * 16) + T * D * 9 + T * 32 * D,
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_the_count_of_an_operator_is_the_one_by_hand(kind: str) -> None:
    mixer = MIXERS[kind]().build(Place(D, D, 6, 5, panels=2))
    assert count_flops(mixer, shape(2, 6, 5, D)) == 2 * BY_HAND[kind]


@pytest.mark.parametrize("kind", MIXERS)
def test_every_mixer_can_be_counted_and_two_pictures_cost_twice_one(kind: str) -> None:
    mixer = MIXERS[kind]().build(Place(8, 8, 6, 5, panels=2))
    one, two = count_flops(mixer, shape(2, 6, 5, 8)), count_flops(mixer, shape(4, 6, 5, 8))
    assert two == 2 * one > 0
