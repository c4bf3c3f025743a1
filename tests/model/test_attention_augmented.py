"""Augmented convolution against the float64 loops, torch's attention and the paper's reshapes; prime sizes."""

from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from drawing import assert_equal_with_gradients, draw, drawn
from torch import Tensor, nn

from diptych_model import reference
from diptych_model.mixers import AttentionAugmented, Place
from diptych_model.mixers.attention_augmented import (
    AttentionAugmentedConvolution,
    RelativeEmbedding,
    RelativeSelfAttention,
)
from diptych_model.panels import join_panels, split_panels, swap_panels

M = TypeVar("M", bound=nn.Module)


def offsets(embedding: RelativeEmbedding | None, d: int) -> list[dict[int, Tensor]]:
    """The embeddings by their offsets; without any, zeros."""
    if embedding is None:
        return [{offset: torch.zeros(d, dtype=torch.float64) for offset in range(-9, 10)}]
    middle = embedding.r.shape[1] // 2
    return [{place - middle: r for place, r in enumerate(kind)} for kind in embedding.r]


def by_the_loops(made: RelativeSelfAttention, panels: list[Tensor], seam: int = 0) -> list[Tensor]:
    weights = {name: getattr(made, name)[:, :, 0, 0] for name in ("W_Q", "W_K", "W_V", "W_O")}
    apiece = len(made.W_Q) // made.heads
    r_H, r_W = offsets(made.r_H, apiece), offsets(made.r_W, apiece)
    return reference.relative_self_attention(panels, weights, made.heads, r_H, r_W, seam=seam)


@pytest.mark.parametrize(
    ("batch", "panels", "switches"),
    [
        (1, 1, {}),
        (3, 1, {"bias": "none"}),
        (1, 2, {"segments": True}),
        (2, 2, {}),
        (2, 2, {"bias": "concatenated"}),
        (1, 2, {"bias": "none"}),
    ],
    ids=str,
)
def test_relative_attention_and_all_its_gradients_equal_the_loops(batch: int, panels: int, switches: Any) -> None:
    made = drawn(RelativeSelfAttention(7, 15, 6, 3, 2, 3, panels=panels, **switches), seed=1)
    x = draw(batch * panels, 2, 3, 7, seed=2).requires_grad_()
    seam = 3 if switches.get("bias") == "concatenated" else 0
    expected = [y for one in x.unflatten(0, (batch, panels)) for y in by_the_loops(made, list(one), seam)]
    assert_equal_with_gradients(made(x), torch.stack(expected), [x, *made.parameters()])


@pytest.mark.parametrize(
    ("panels", "stride", "open_seam", "window"),
    [(1, 1, False, (3, 3)), (1, 2, False, (2, 4)), (2, 1, False, (3, 2)), (2, 3, False, (3, 1)), (2, 2, True, (2, 3))],
)
def test_the_mixer_and_all_its_gradients_are_a_convolution_beside_attention_over_pooled_input(
    panels: int, stride: int, open_seam: bool, window: tuple[int, int]
) -> None:
    place = Place(5, 7, 3, 4, panels=panels, stride=stride, open_seam=open_seam, segments=panels == 2)
    made = drawn(AttentionAugmentedConvolution(*window, 2, 6, 4, place), seed=3)
    x = draw(2 * panels, 3, 4, 5, seed=4).requires_grad_()
    H = made.convolution.H.permute(0, 2, 3, 1)
    t = join_panels(x, panels) if open_seam else x
    seen = torch.cat([x, swap_panels(x)], -1) if panels == 2 and not open_seam else t
    near = torch.stack([reference.convolution(one, H, stride=stride) for one in seen])
    pooled = torch.stack([reference.average_pooling(one, stride) for one in t]) if stride > 1 else t
    if open_seam:
        near, pooled = split_panels(near, panels), split_panels(pooled, panels)
    far = [y for one in pooled.unflatten(0, (2, panels)) for y in by_the_loops(made.attention, list(one))]
    assert_equal_with_gradients(made(x), torch.cat([near, torch.stack(far)], -1), [x, *made.parameters()])


def relative_to_absolute(logits: Tensor) -> Tensor:
    """(B, L, 2 L - 1), by offset, to (B, L, L), by position: the shift by padding of Bello et al. 2019."""
    length = logits.shape[1]
    flat = F.pad(F.pad(logits, (0, 1)).flatten(1), (0, length - 1))
    return flat.reshape(-1, length + 1, 2 * length - 1)[:, :length, length - 1 :]


def test_the_relative_logits_are_those_of_the_papers_shift_by_padding() -> None:
    made = drawn(RelativeEmbedding(5, 7), seed=5)
    q = draw(3, 7, 5, seed=6)
    torch.testing.assert_close(torch.einsum("bie,ije->bij", q, made(7)), relative_to_absolute(q @ made.r[0].T))


@pytest.mark.parametrize("concatenated", [False, True])
def test_offsets_beyond_the_reach_have_the_vectors_of_its_ends(concatenated: bool) -> None:
    made = drawn(RelativeEmbedding(5, 3, panels=2, segments=not concatenated, concatenated=concatenated), seed=5)
    ends = made.reach - 1
    pieces = made(8)
    for asking, asked in ((0, 7), (15, 0), (9, 10)):
        other = asking // 8 != asked // 8
        offset = asked - asking if concatenated else asked % 8 - asking % 8
        kind = 1 if other and not concatenated else 0
        assert torch.equal(pieces[asking, asked], made.r[kind, max(-ends, min(ends, offset)) + ends])


def test_without_relative_positions_it_is_torchs_multi_head_attention() -> None:
    made = drawn(RelativeSelfAttention(6, 6, 6, 2, 3, 5, bias="none"), seed=7)
    oracle = nn.MultiheadAttention(6, 2, bias=False, batch_first=True, dtype=torch.float64)
    oracle.in_proj_weight.data = torch.cat([made.W_Q, made.W_K, made.W_V]).detach().flatten(1)
    oracle.out_proj.weight.data = made.W_O.detach().flatten(1)
    x = draw(2, 3, 5, 6, seed=8)
    flat = x.flatten(1, 2)
    torch.testing.assert_close(made(x).flatten(1, 2), oracle(flat, flat, flat, need_weights=False)[0])


def test_the_coefficients_of_every_output_sum_to_one_over_the_keys() -> None:
    made = drawn(RelativeSelfAttention(5, 6, 4, 2, 3, 7, panels=2, segments=True), seed=9)
    made.W_V.data[:, :-1], made.W_V.data[:, -1] = 0, 1
    x = draw(4, 3, 7, 5, seed=10)
    x[..., -1] = 2
    torch.testing.assert_close(made(x), (2 * made.W_O.sum((1, 2, 3))).expand(4, 3, 7, 4))


def test_a_relative_embedding_can_point_a_head_at_the_neighbour_to_the_right_and_below() -> None:
    # One offset right and two down overwhelm all others for every query, which has a constant channel: asymmetric on
    # purpose, so that no axis and no sign can be exchanged.
    made = drawn(RelativeSelfAttention(3, 4, 3, 1, 5, 7), seed=11)
    assert made.r_H is not None
    assert made.r_W is not None
    made.W_Q.data.zero_()
    made.W_Q.data[:, 0] = 1
    made.r_H.r.data.zero_()
    made.r_W.r.data.zero_()
    made.r_H.r.data[0, 4 + 2], made.r_W.r.data[0, 6 + 1] = 1e4, 1e4
    x = draw(1, 5, 7, 3, seed=12)
    x[..., 0] = 1
    values = F.linear(F.linear(x, made.W_V[:, :, 0, 0]), made.W_O[:, :, 0, 0])
    torch.testing.assert_close(made(x)[:, :3, :6], values[:, 2:, 1:])


def test_moving_the_positions_about_moves_the_outputs_alike_only_without_relative_positions() -> None:
    x, order = draw(1, 3, 7, 5, seed=13), torch.randperm(21, generator=torch.Generator().manual_seed(1))
    moved = x.reshape(1, 21, 5)[:, order].reshape(1, 3, 7, 5)
    blind = drawn(RelativeSelfAttention(5, 4, 2, 2, 3, 7, bias="none"), seed=14)
    torch.testing.assert_close(blind(moved).reshape(21, 2), blind(x).reshape(21, 2)[order])
    seeing = drawn(RelativeSelfAttention(5, 4, 2, 2, 3, 7), seed=14)
    assert (seeing(moved).reshape(21, 2) - seeing(x).reshape(21, 2)[order]).abs().max() > 1e-3


def test_a_smaller_grid_uses_the_near_part_of_the_embeddings() -> None:
    large = drawn(RelativeSelfAttention(5, 4, 2, 2, 5, 7, panels=2, segments=True), seed=15)
    small = RelativeSelfAttention(5, 4, 2, 2, 2, 3, panels=2, segments=True).double()
    state = large.state_dict()
    state["r_H.r"], state["r_W.r"] = state["r_H.r"][:, 3:-3], state["r_W.r"][:, 4:-4]
    small.load_state_dict(state)
    x = draw(4, 2, 3, 5, seed=16)
    torch.testing.assert_close(large(x), small(x))


@pytest.mark.parametrize("segments", [False, True])
def test_swapping_the_panels_of_every_picture_swaps_the_outputs(segments: bool) -> None:
    made = drawn(AttentionAugmented(heads=2).build(Place(6, 10, 3, 5, panels=2, segments=segments)), seed=17)
    x = draw(6, 3, 5, 6, seed=18)
    torch.testing.assert_close(made(swap_panels(x)), swap_panels(made(x)))


def test_a_panel_facing_its_copy_gives_what_it_gives_alone_unless_segments_tell_them_apart() -> None:
    one = draw(1, 3, 5, 6, seed=19)
    alone = drawn(RelativeSelfAttention(6, 4, 2, 2, 3, 5), seed=20)
    facing = RelativeSelfAttention(6, 4, 2, 2, 3, 5, panels=2).double()
    facing.load_state_dict(alone.state_dict())
    torch.testing.assert_close(facing(torch.cat([one, one])), alone(one).expand(2, -1, -1, -1))
    told = drawn(RelativeSelfAttention(6, 4, 2, 2, 3, 5, panels=2, segments=True), seed=20)
    for name, value in alone.state_dict().items():
        told.state_dict()[name].copy_(value)  # both kinds of r are the one kind of the panel alone
    torch.testing.assert_close(told(torch.cat([one, one])), alone(one).expand(2, -1, -1, -1))
    assert told.r_W is not None
    told.r_W.r.data[1] = draw(9, 2, seed=21)
    assert (told(torch.cat([one, one])) - alone(one)).abs().max() > 1e-3


def test_a_pictures_result_does_not_depend_on_its_mates() -> None:
    made = drawn(AttentionAugmented(heads=2).build(Place(6, 10, 3, 5, panels=2, stride=2)), seed=21)
    x = draw(6, 3, 5, 6, seed=22)
    torch.testing.assert_close(made(x)[2:4], made(x[2:4]))


def test_keys_start_as_queries() -> None:
    made = RelativeSelfAttention(6, 4, 2, 2, 3, 5)
    assert torch.equal(made.W_K, made.W_Q)


@pytest.mark.parametrize(
    ("switches", "kinds"),
    [({"panels": 2, "segments": True}, 2), ({"panels": 2}, 1), ({"segments": True}, 1), ({"bias": "none"}, None)],
)
def test_a_place_says_which_relative_embeddings_there_are(switches: Any, kinds: int | None) -> None:
    attention = AttentionAugmented(heads=2).build(Place(6, 8, 5, 7, stride=2, **switches)).attention
    found = [None if r is None else (len(r.r), r.reach) for r in (attention.r_H, attention.r_W)]
    assert found == ([None, None] if kinds is None else [(kinds, 3), (kinds, 4)])


@pytest.mark.parametrize(("d", "d_k", "d_v"), [(12, 12, 8), (32, 32, 16), (48, 48, 24)])
def test_the_defaults_fit_the_usual_widths(d: int, d_k: int, d_v: int) -> None:
    made = AttentionAugmented().build(Place(d, d, 4, 4, panels=2, segments=True))
    assert (len(made.attention.W_K), len(made.attention.W_V)) == (d_k, d_v)
    assert made(torch.randn(4, 3, 2, d)).shape == (4, 3, 2, d)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RelativeSelfAttention(5, 5, 4, 2, 2, 2), "multiples of the heads, got d_k 5, d_v 4, 2 heads"),
        (lambda: RelativeSelfAttention(5, 4, 3, 2, 2, 2), "multiples of the heads, got d_k 4, d_v 3, 2 heads"),
        (lambda: AttentionAugmented(heads=4).build(Place(4, 4, 2, 2)), "of the d_o channels, .* 4 of 4"),
        (lambda: AttentionAugmented(upsilon=1.0), "upsilon between 0 and 1"),
        (lambda: AttentionAugmented(heads=0), "must be positive"),
        (
            lambda: AttentionAugmented().build(Place(12, 12, 2, 2, panels=2, segments=True, bias="none")),
            "'attention_augmented' takes bias = 'panel', got 'none'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
