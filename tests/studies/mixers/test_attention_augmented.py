"""Augmented convolution against the float64 loops, torch's attention and the paper's reshapes; prime sizes."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from drawing import assert_equal_with_gradients, draw, drawn
from torch import Tensor, nn

from diptych_model.mixers import Place
from diptych_model.panels import join_panels, split_panels
from diptych_studies import reference
from diptych_studies.mixers import AttentionAugmented
from diptych_studies.mixers.attention_augmented import (
    AttentionAugmentedConvolution,
    RelativeEmbedding,
    RelativeSelfAttention,
)
from diptych_studies.mixers.convolution import swap_panels


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


@pytest.mark.parametrize(
    ("switches", "kinds"),
    [({"panels": 2, "segments": True}, 2), ({"panels": 2}, 1), ({"segments": True}, 1), ({"bias": "none"}, None)],
)
def test_a_place_says_which_relative_embeddings_there_are(switches: Any, kinds: int | None) -> None:
    attention = AttentionAugmented(heads=2).build(Place(6, 8, 5, 7, stride=2, **switches)).attention
    found = [None if r is None else (len(r.r), r.reach) for r in (attention.r_H, attention.r_W)]
    assert found == ([None, None] if kinds is None else [(kinds, 3), (kinds, 4)])
