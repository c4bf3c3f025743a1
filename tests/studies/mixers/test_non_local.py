"""SAGAN's attention against the float64 loops and the formula by einsum; every size another prime."""

import pytest
import torch
from drawing import assert_equal_with_gradients, draw, drawn
from torch import Tensor

from diptych_model.mixers import Place
from diptych_studies import reference
from diptych_studies.mixers import NonLocalAttention
from diptych_studies.mixers.non_local import NonLocal, NonLocalBlock


def weights_of(made: NonLocal) -> dict[str, Tensor]:
    return {name: getattr(made, name)[:, :, 0, 0] for name in ("W_f", "W_g", "W_h", "W_v")}


@pytest.mark.parametrize(
    ("batch", "panels", "stride", "segments"),
    [(1, 1, 1, False), (3, 1, 2, False), (1, 2, 1, True), (2, 2, 1, False), (2, 2, 2, True), (2, 1, 3, True)],
)
def test_the_operator_and_all_its_gradients_equal_the_loops(
    batch: int, panels: int, stride: int, segments: bool
) -> None:
    made = drawn(NonLocal(22, 7, 2, panels=panels, stride=stride, segments=segments), seed=1)
    x = draw(batch * panels, 3, 5, 22, seed=2).requires_grad_()
    same, other = made.segment if made.segment is not None else torch.zeros(2, dtype=torch.float64)
    expected = [
        y
        for one in x.unflatten(0, (batch, panels))
        for y in reference.non_local(list(one), weights_of(made), same, other, stride=stride)
    ]
    # One panel has no other to tell it from: its segment has no gradient, and both ways say zero.
    assert_equal_with_gradients(made(x), torch.stack(expected), [x, *made.parameters()])


def test_the_operator_is_the_sources_formula_by_einsum_with_the_sum_over_the_keys() -> None:
    made, x = drawn(NonLocal(6, 5, 2), seed=3), draw(2, 3, 7, 6, seed=4)
    W = weights_of(made)
    f, g, h = (torch.einsum("ec,bic->bie", W[name], x.flatten(1, 2)) for name in ("W_f", "W_g", "W_h"))
    alpha = torch.einsum("bie,bje->bij", f, g).softmax(1)
    o = torch.einsum("de,bij,bie->bjd", W["W_v"], alpha, h)
    torch.testing.assert_close(made(x), o.unflatten(1, (3, 7)))
    wrong = torch.einsum("de,bij,bie->bjd", W["W_v"], torch.einsum("bie,bje->bij", f, g).softmax(2), h)
    assert (wrong - o).abs().max() > 1e-2


def test_the_residual_block_starts_as_the_identity() -> None:
    block, x = NonLocalBlock(8, 2).double(), draw(2, 3, 5, 8, seed=17)
    assert torch.equal(block(x), x)


def test_the_residual_block_and_all_its_gradients_equal_the_loops() -> None:
    block, x = drawn(NonLocalBlock(8, 4), seed=18), draw(2, 3, 5, 8, seed=19).requires_grad_()
    weights = weights_of(block.operator)
    expected = torch.stack([reference.non_local_block(one, weights, block.gamma) for one in x])
    assert_equal_with_gradients(block(x), expected, [x, *block.parameters()])


def test_a_place_gives_its_stride_and_of_two_panels_its_segments() -> None:
    made = NonLocalAttention(2).build(Place(6, 5, 3, 7, panels=2, segments=True, stride=2))
    assert made(torch.randn(4, 3, 7, 6)).shape == (4, 2, 4, 5)
    assert made.segment is not None
    assert NonLocalAttention(2).build(Place(6, 5, 3, 7, panels=2)).segment is None
    assert NonLocalAttention(2).build(Place(6, 5, 3, 7, segments=True)).segment is None
