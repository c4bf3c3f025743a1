"""The other papers' operators in the pair network: its laws, their costs by hand, what they refuse, and the gate."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from drawing import draw
from laws import LAWS, network
from networks import small_network
from torch import nn

from diptych_export.graphs import export_graphs
from diptych_export.parity import compare_graphs
from diptych_model.mixers import Place
from diptych_studies.flops import count_flops
from diptych_studies.mixers import (
    MIXERS,
    AttentionAugmented,
    CrossCovariance,
    Decoder,
    NonLocalAttention,
    SqueezeExcitationConvolution,
    StandAlone,
    Transformer,
)
from diptych_studies.mixers.attention_augmented import RelativeSelfAttention
from diptych_studies.mixers.convolution import Convolution, PlainConvolution
from diptych_studies.mixers.cross_covariance import ClassAttention, CrossCovarianceAttention
from diptych_studies.mixers.non_local import NonLocal
from diptych_studies.mixers.squeeze_excitation import SqueezeExcitation
from diptych_studies.mixers.stand_alone import AttentionStem
from diptych_studies.mixers.transformer import CrossAttention, DecoderLayer, EncoderLayer, sinusoids

KINDS = [kind for kind in MIXERS if kind != "msac"]
ATTENTIVE = {"attention_augmented", "decoder", "non_local", "transformer"}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_law_holds_for_the_mixer(law: Callable[[str], None], kind: str) -> None:
    law(kind)


def test_the_mixers_that_attend_from_patch_to_patch_are_these() -> None:
    assert len(KINDS) == 8
    assert {kind for kind in KINDS if network(kind).has_attention} == ATTENTIVE


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_mixer_passes_the_gate_of_the_export(kind: str) -> None:
    made = small_network(mixer=MIXERS[kind](), segment="relative")
    parity = compare_graphs(made, export_graphs(made), pairs=100)
    parity.require()
    shown = {difference.output for difference in parity.differences if difference.graph == "explain"}
    assert shown == ({"attention"} if kind in ATTENTIVE else set())


def shape(*sizes: int) -> torch.Tensor:
    return torch.empty(*sizes, device="meta")


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
    assert not [part for part in twice.modules() if part._forward_hooks or part._forward_pre_hooks]


T, D = 60, 8  # two panels of 6 x 5 positions, 8 channels in and out
CONVOLUTION = T * 2 * D * 9
BY_HAND = {
    # Multiply-adds. W_1 sees the means of both panels and gives a quarter of the channels; of one position each.
    "squeeze_excitation": CONVOLUTION * D + 2 * (2 * D * 2 + 2 * D),
    # q, k, v and the output; scores and values.
    "transformer": T * 4 * D * D + 2 * T * T * D,
    # Self-attention within panels of 30, cross-attention to the 30 of the other.
    "decoder": T * 8 * D * D + 4 * T * 30 * D,
    # Keys, queries and values of 2 channels, and back to 8.
    "non_local": T * 4 * D * 2 + 2 * T * T * 2,
    # d_k = 8, d_v = 4: a convolution of 4 channels; q, k, v, W^O; scores, values, and q . r for 12 rows and 10 columns.
    "attention_augmented": CONVOLUTION * 4 + T * (D * (8 + 8 + 4) + 4 * 4) + T * T * (8 + 4) + T * 8 * (2 * 6 + 2 * 5),
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_the_count_of_an_operator_is_the_one_by_hand(kind: str) -> None:
    mixer = MIXERS[kind]().build(Place(D, D, 6, 5, panels=2))
    assert count_flops(mixer, shape(2, 6, 5, D)) == 2 * BY_HAND[kind]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "convolution"])  # which has filters, and no bias
def test_a_mixer_refuses_a_bias_that_it_has_not(kind: str) -> None:
    bias = "none" if kind == "attention_augmented" else "concatenated"
    with pytest.raises(ValueError, match=rf"'{kind}' takes bias = '.*, got '{bias}'"):
        MIXERS[kind]().build(Place(12, 12, 2, 2, panels=2, segments=True, bias=bias))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Decoder().build(Place(8, 8, 3, 3)), "needs panels = 2, got 1: use the mixer 'transformer'"),
        (lambda: Transformer(heads=0), "transformer: heads must be positive .*, got 0"),
        (lambda: Transformer(heads=3).build(Place(8, 8, 3, 3)), "divide the width 8, got 3"),
        (lambda: EncoderLayer(8, 3, 5), "encoder layer: heads must be positive and divide the width 8, got 3"),
        (lambda: DecoderLayer(8, 5, 5), "decoder layer: heads .* width 8, got 5"),
        (lambda: CrossAttention(7, 2, 3), "attention: heads .* width 7, got 2"),
        (lambda: sinusoids(3, 5), "d must be even, got 5"),
        (lambda: StandAlone(k=0), "k and heads must be positive"),
        (lambda: StandAlone(heads=3).build(Place(6, 8, 5, 7)), "3 heads must divide the channels given, 8"),
        (lambda: StandAlone(heads=2, grouped=True).build(Place(5, 8, 5, 7)), "given, 8, and, grouped, those taken, 5"),
        (lambda: StandAlone(heads=4).build(Place(3, 4, 5, 7)), "a head needs at least 2, got 1"),
        (lambda: StandAlone().build(Place(8, 8, 5, 7, panels=3)), "takes panels = 1 or 2, got 3"),
        (lambda: AttentionStem(3, 8, heads=3), "the heads divide d_o = 8"),
        (lambda: AttentionStem(3, 8)(torch.zeros(1, 8, 6, 3)), "blocks of 4 x 4 must tile the picture, got 8 x 6"),
        (lambda: CrossCovarianceAttention(6, 4), "must divide the channels: 6 channels, 4 heads"),
        (lambda: ClassAttention(6, 4), "must divide the channels: 6 channels, 4 heads"),
        (lambda: CrossCovariance(heads=0), "must be positive"),
        (lambda: RelativeSelfAttention(5, 4, 3, 2, 2, 2), "multiples of the heads, got d_k 4, d_v 3, 2 heads"),
        (lambda: AttentionAugmented(heads=4).build(Place(4, 4, 2, 2)), "of the d_o channels, .* 4 of 4"),
        (lambda: AttentionAugmented(upsilon=1.0), "upsilon between 0 and 1"),
        (lambda: NonLocal(7, 3, 2), "must divide the channels: 7 channels, reduction 2"),
        (lambda: NonLocalAttention(0), "reduction must be positive"),
        (lambda: SqueezeExcitation(7, 2), "must divide the channels: 7 channels, reduction 2"),
        (lambda: SqueezeExcitation(6, 2, panels=3), "one panel or two that face each other, got 3"),
        (lambda: SqueezeExcitationConvolution(reduction=0), "must be positive"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused_with_the_numbers(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_convolution_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        PlainConvolution(0)


def test_a_convolution_facing_another_panel_sees_the_same_window_there() -> None:
    made = PlainConvolution(3, 2).build(Place(3, 7, 4, 5, panels=2)).double()
    assert isinstance(made, Convolution)
    made.H.data = draw(7, 6, 3, 2)
    x, result = draw(4, 4, 5, 3, seed=1), made(draw(4, 4, 5, 3, seed=1))
    for here, there in [(0, 1), (1, 0), (2, 3), (3, 2)]:
        both = F.pad(torch.cat([x[here], x[there]], -1).permute(2, 0, 1), (0, 1, 1, 1))
        torch.testing.assert_close(result[here], F.conv2d(both, made.H).permute(1, 2, 0))
