"""Squeeze-and-excitation against the float64 loops and its formula in one line; every size another prime."""

import pytest
import torch
from drawing import assert_equal_with_gradients, draw, drawn

from diptych_model.mixers import Place
from diptych_model.panels import join_panels, split_panels
from diptych_studies import reference
from diptych_studies.mixers import SqueezeExcitationConvolution
from diptych_studies.mixers.convolution import swap_panels
from diptych_studies.mixers.squeeze_excitation import SqueezeExcitation


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


def test_every_channel_is_only_weakened_and_by_one_number_for_all_positions() -> None:
    u = draw(2, 3, 5, 8, seed=9)
    s = drawn(SqueezeExcitation(8, 2), seed=10)(u) / u
    assert ((s > 0) & (s < 1)).all()
    torch.testing.assert_close(s, s[:, :1, :1].expand_as(s))
    assert s[0, 0, 0].std() > 1e-3
