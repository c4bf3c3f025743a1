"""Definitions 1 and 2 against the loops, a 1x1 one among them, as in Lemma 1."""

import pytest
import torch
from drawing import assert_equal_with_gradients, draw

from diptych_model import convolve, reference
from diptych_model.panels import join_panels

WINDOWS = [(1, 1), (3, 3), (4, 3), (1, 2)]
KINDS = [
    {},
    {"stride": 2},
    {"stride": 3, "dilation": 2},
    {"dilation": 2, "groups": 3},
    {"groups": 3},
    {"causal": True},
    {"causal": True, "dilation": 2, "stride": 2},
]


@pytest.mark.parametrize(("n", "m"), WINDOWS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_convolution_and_its_gradients_are_definitions_1_and_2(n: int, m: int, kind: dict) -> None:
    x = draw(2, 4, 5, 3).requires_grad_()
    weight = draw(6, 3 // kind.get("groups", 1), n, m, seed=1).requires_grad_()
    expected = torch.stack([reference.convolution(one, weight.permute(0, 2, 3, 1), **kind) for one in x])
    computed = convolve(x, weight, **kind)
    assert_equal_with_gradients(computed, expected, [x, weight])


@pytest.mark.parametrize("stride", [1, 2])
def test_joined_panels_are_convolved_as_the_one_picture_t(stride: int) -> None:
    x, weight = draw(4, 3, 6, 5), draw(7, 5, 2, 3, seed=1)
    t = convolve(join_panels(x, 2), weight, stride=stride)
    joined, alone = convolve(x, weight, stride=stride, joined=2), convolve(x, weight, stride=stride)
    torch.testing.assert_close(join_panels(joined, 2), t)
    differs = (joined - alone).abs().amax((0, 1, 3)) > 0
    assert differs.any()
    assert not differs[1:-1].any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: convolve(draw(1, 2, 3, 5), draw(2, 7, 1, 1)), "takes 7 channels, the picture has 5"),
        (lambda: convolve(draw(1, 2, 3, 6), draw(4, 2, 1, 1), groups=2), "takes 4 channels, the picture has 6"),
        (
            lambda: convolve(draw(2, 2, 3, 5), draw(2, 5, 3, 3), stride=2, joined=2),
            "give panels a multiple of 2 columns",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
