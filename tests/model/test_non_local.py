"""SAGAN's attention against the float64 loops and the formula by einsum; every size another prime."""

from typing import TypeVar

import pytest
import torch
from drawing import assert_equal_with_gradients, draw, drawn
from torch import Tensor, nn

from diptych_model import reference
from diptych_model.mixers import NonLocalAttention, Place
from diptych_model.mixers.non_local import NonLocal, NonLocalBlock
from diptych_model.panels import swap_panels

M = TypeVar("M", bound=nn.Module)


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


@pytest.mark.parametrize("segments", [False, True])
def test_the_coefficients_of_every_output_sum_to_one_over_the_keys(segments: bool) -> None:
    made = drawn(NonLocal(6, 3, 2, panels=2, segments=segments), seed=5)
    # Values that are the same number everywhere come out as that number, whatever the coefficients.
    made.W_h.data[:, :-1], made.W_h.data[:, -1] = 0, 1
    x = draw(4, 3, 5, 6, seed=6)
    x[..., -1] = 2
    expected = 2 * made.W_v[:, :, 0, 0].sum(1)
    torch.testing.assert_close(made(x), expected.expand(4, 3, 5, 3))


def test_a_key_that_all_queries_look_for_is_seen_at_every_position() -> None:
    made, x = drawn(NonLocal(4, 3, 2), seed=7), draw(1, 3, 5, 4, seed=8)
    q = torch.einsum("ec,c->e", made.W_g[:, :, 0, 0], torch.ones(4, dtype=torch.float64))
    x = 1 + 0.01 * x
    x[0, 2, 1] = torch.linalg.lstsq(made.W_f[:, :, 0, 0], q).solution * 1e4
    seen = made.W_v[:, :, 0, 0] @ (made.W_h[:, :, 0, 0] @ x[0, 2, 1])
    others = torch.ones(3, 5, dtype=torch.bool)
    others[2, 1] = False
    torch.testing.assert_close(made(x)[0][others], seen.expand(14, 3))


def test_moving_the_positions_of_a_picture_about_moves_its_outputs_alike() -> None:
    made, x = drawn(NonLocal(6, 5, 3), seed=9), draw(1, 3, 7, 6, seed=10)
    order = torch.randperm(21, generator=torch.Generator().manual_seed(1))
    moved = x.reshape(1, 21, 6)[:, order].reshape(1, 3, 7, 6)
    torch.testing.assert_close(made(moved).reshape(21, 5), made(x).reshape(21, 5)[order])


@pytest.mark.parametrize("segments", [False, True])
def test_swapping_the_panels_of_every_picture_swaps_the_outputs(segments: bool) -> None:
    made = drawn(NonLocalAttention(2).build(Place(6, 5, 3, 7, panels=2, segments=segments)), seed=11)
    x = draw(6, 3, 7, 6, seed=12)
    torch.testing.assert_close(made(swap_panels(x)), swap_panels(made(x)))


def test_the_segment_turns_a_panel_to_itself_and_its_own_keys_decide() -> None:
    made, x = drawn(NonLocal(6, 5, 2, panels=2, segments=True), seed=13), draw(2, 3, 5, 6, seed=14)
    alone = NonLocal(6, 5, 2).double()
    alone.load_state_dict({name: value for name, value in made.state_dict().items() if name != "segment"})
    assert made.segment is not None
    made.segment.data = torch.tensor([0.0, -1e4], dtype=torch.float64)
    torch.testing.assert_close(made(x), alone(x))
    made.segment.data = torch.tensor([0.3, 0.3], dtype=torch.float64)
    assert (made(x) - alone(x)).abs().max() > 1e-2


def test_a_pictures_result_does_not_depend_on_its_mates() -> None:
    made, x = drawn(NonLocal(6, 5, 2, panels=2, segments=True), seed=15), draw(6, 3, 5, 6, seed=16)
    torch.testing.assert_close(made(x)[2:4], made(x[2:4]))


def test_the_residual_block_starts_as_the_identity() -> None:
    block, x = NonLocalBlock(8, 2).double(), draw(2, 3, 5, 8, seed=17)
    assert torch.equal(block(x), x)


def test_the_residual_block_and_all_its_gradients_equal_the_loops() -> None:
    block, x = drawn(NonLocalBlock(8, 4), seed=18), draw(2, 3, 5, 8, seed=19).requires_grad_()
    weights = weights_of(block.operator)
    expected = torch.stack([reference.non_local_block(one, weights, block.gamma) for one in x])
    assert_equal_with_gradients(block(x), expected, [x, *block.parameters()])


def test_keys_start_as_queries_and_scores_of_white_input_at_unit_variance() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = NonLocal(256, 5, 4)
        assert torch.equal(made.W_f, made.W_g)
        f, g = torch.randn(2, 500, 256) @ made.W_f[:, :, 0, 0].T
    assert (f @ g.T).std().item() == pytest.approx(1, abs=0.2)


def test_a_place_gives_its_stride_and_of_two_panels_its_segments() -> None:
    made = NonLocalAttention(2).build(Place(6, 5, 3, 7, panels=2, segments=True, stride=2))
    assert made(torch.randn(4, 3, 7, 6)).shape == (4, 2, 4, 5)
    assert made.segment is not None
    assert NonLocalAttention(2).build(Place(6, 5, 3, 7, panels=2)).segment is None
    assert NonLocalAttention(2).build(Place(6, 5, 3, 7, segments=True)).segment is None


@pytest.mark.parametrize("d", [12, 32, 48])
def test_the_defaults_fit_the_usual_widths(d: int) -> None:
    made = NonLocalAttention().build(Place(d, d, 4, 4, panels=2, segments=True, open_seam=True))
    assert made(torch.randn(4, 3, 2, d)).shape == (4, 3, 2, d)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NonLocal(7, 3, 2), "must divide the channels: 7 channels, reduction 2"),
        (lambda: NonLocalAttention(0), "reduction must be positive"),
        (
            lambda: NonLocalAttention().build(Place(4, 4, 2, 2, bias="concatenated")),
            "'non_local' takes bias = 'panel' or 'none', got 'concatenated'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
