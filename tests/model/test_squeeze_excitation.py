"""Squeeze-and-excitation against the float64 loops and its formula in one line; every size another prime."""

from typing import TypeVar

import pytest
import torch
from drawing import assert_equal_with_gradients, draw, drawn
from torch import nn

from diptych_model import reference
from diptych_model.mixers import Place, SqueezeExcitationConvolution
from diptych_model.mixers.squeeze_excitation import SqueezeExcitation
from diptych_model.panels import join_panels, split_panels, swap_panels

M = TypeVar("M", bound=nn.Module)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("panels", [1, 2])
def test_squeeze_and_excitation_and_all_its_gradients_equal_the_loops(batch: int, panels: int) -> None:
    made = drawn(SqueezeExcitation(14, 2, panels=panels), seed=1)
    u = draw(batch * panels, 3, 5, 14, seed=2).requires_grad_()
    W_1, W_2 = made.W_1[:, :, 0, 0], made.W_2[:, :, 0, 0]
    expected = [reference.squeeze_excitation(list(one), W_1, W_2) for one in u.unflatten(0, (batch, panels))]
    assert_equal_with_gradients(made(u), torch.stack([x for one in expected for x in one]), [u, *made.parameters()])


@pytest.mark.parametrize(
    ("panels", "stride", "open_seam", "window"),
    [(1, 1, False, (3, 3)), (1, 2, False, (2, 4)), (2, 1, False, (3, 2)), (2, 3, False, (1, 1)), (2, 1, True, (3, 2))],
)
def test_the_mixer_and_all_its_gradients_are_a_convolution_and_then_squeeze_and_excitation(
    panels: int, stride: int, open_seam: bool, window: tuple[int, int]
) -> None:
    place = Place(7, 10, 3, 5, panels=panels, stride=stride, open_seam=open_seam)
    made = drawn(SqueezeExcitationConvolution(*window, reduction=5).build(place), seed=3)
    x = draw(2 * panels, 3, 5, 7, seed=4).requires_grad_()
    H = made.convolution.H.permute(0, 2, 3, 1)
    if open_seam:
        t = torch.stack([reference.convolution(one, H) for one in join_panels(x, panels)])
        u = split_panels(t, panels)
    else:
        seen = torch.cat([x, swap_panels(x)], -1) if panels == 2 else x
        u = torch.stack([reference.convolution(one, H, stride=stride) for one in seen])
    W_1, W_2 = made.excitation.W_1[:, :, 0, 0], made.excitation.W_2[:, :, 0, 0]
    expected = [reference.squeeze_excitation(list(one), W_1, W_2) for one in u.unflatten(0, (2, panels))]
    assert_equal_with_gradients(made(x), torch.stack([y for one in expected for y in one]), [x, *made.parameters()])


def test_one_panel_is_the_formula_of_the_guide_by_matrix_products() -> None:
    made = drawn(SqueezeExcitation(15, 3), seed=5)
    u = draw(2, 7, 11, 15, seed=6)
    W_1, W_2 = made.W_1.flatten(1), made.W_2.flatten(1)
    s = torch.sigmoid((u.mean((1, 2)) @ W_1.T).relu() @ W_2.T)
    torch.testing.assert_close(made(u), torch.einsum("bnmc,bc->bnmc", u, s))


def test_moving_the_positions_of_a_picture_about_moves_its_outputs_alike() -> None:
    made, u = drawn(SqueezeExcitation(6, 3), seed=7), draw(1, 5, 7, 6, seed=8)
    order = torch.randperm(35, generator=torch.Generator().manual_seed(1))
    moved = u.reshape(1, 35, 6)[:, order].reshape(1, 5, 7, 6)
    torch.testing.assert_close(made(moved).reshape(35, 6), made(u).reshape(35, 6)[order])


def test_every_channel_is_only_weakened_and_by_one_number_for_all_positions() -> None:
    u = draw(2, 3, 5, 8, seed=9)
    s = drawn(SqueezeExcitation(8, 2), seed=10)(u) / u
    assert ((s > 0) & (s < 1)).all()
    torch.testing.assert_close(s, s[:, :1, :1].expand_as(s))
    assert s[0, 0, 0].std() > 1e-3


@pytest.mark.parametrize("open_seam", [False, True])
def test_swapping_the_panels_of_every_picture_swaps_the_outputs_without_windows_over_the_seam(open_seam: bool) -> None:
    # A window over the seam knows left from right; one of a single position does not reach it.
    window = (1, 1) if open_seam else (3, 3)
    place = Place(5, 8, 3, 7, panels=2, open_seam=open_seam)
    made, x = drawn(SqueezeExcitationConvolution(*window).build(place), seed=11), draw(6, 3, 7, 5, seed=12)
    torch.testing.assert_close(made(swap_panels(x)), swap_panels(made(x)))


def test_each_panel_is_weighed_by_what_the_other_holds_and_no_picture_by_its_mates() -> None:
    made, u = drawn(SqueezeExcitation(8, 2, panels=2), seed=13), draw(4, 3, 5, 8, seed=14)
    changed = u.clone()
    changed[1] += 1
    moved = (made(u) - made(changed)).abs().amax((1, 2, 3))
    assert moved[0] > 1e-3
    assert moved[2:].max() == 0
    torch.testing.assert_close(made(u)[2:], made(u[2:]))


@pytest.mark.parametrize("d", [12, 32, 48])
def test_the_defaults_fit_the_usual_widths(d: int) -> None:
    made = SqueezeExcitationConvolution().build(Place(d, d, 4, 4, panels=2, segments=True))
    assert made(torch.randn(4, 3, 2, d)).shape == (4, 3, 2, d)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SqueezeExcitation(7, 2), "must divide the channels: 7 channels, reduction 2"),
        (lambda: SqueezeExcitation(6, 2, panels=3), "one panel or two that face each other, got 3"),
        (lambda: SqueezeExcitationConvolution(reduction=0), "must be positive"),
        (
            lambda: SqueezeExcitationConvolution().build(Place(4, 4, 2, 2, bias="concatenated")),
            "'squeeze_excitation' takes bias = 'panel' or 'none', got 'concatenated'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
