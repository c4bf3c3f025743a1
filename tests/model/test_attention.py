"""Attention in the forms that the papers write it in; the relative positional bias as a dense tensor, for one panel as
in Eq. 3, for two with and without segments.
"""

import pytest
import torch
from drawing import draw
from torch import Tensor

from diptych_model.attention import RelativeBias, relative_attention


def bias(heads: int, rows: int, cols: int, **options: int | bool) -> RelativeBias:
    made = RelativeBias(heads, rows, cols, **options)  # type: ignore[arg-type]
    made.table.data = torch.randn(made.table.shape, generator=torch.Generator().manual_seed(0))
    return made


@pytest.mark.parametrize("seeds", [(1, 2, 3), (1, 1, 1)], ids=["retrieval", "self-attention"])
@pytest.mark.parametrize("zeros", [None, torch.zeros(1, 5, 5)], ids=["no bias", "a bias of zero"])
@pytest.mark.parametrize("grad", [True, False], ids=["learning", "not learning"])
def test_the_written_out_attention_is_that_of_the_guide(
    seeds: tuple[int, ...], zeros: Tensor | None, grad: bool
) -> None:
    q, k, v = (draw(5, 3, seed=seed) for seed in seeds)
    similarity = [[torch.exp(q_i @ k_j / 3**0.5) for k_j in k] for q_i in q]
    weights = [torch.stack(row) / sum(row) for row in similarity]
    y = torch.stack([(w[:, None] * v).sum(0) for w in weights])
    with torch.set_grad_enabled(grad):
        attended = relative_attention(q[None, None], k[None, None], v[None, None], zeros)
    torch.testing.assert_close(attended[0, 0], y)


def test_one_panel_has_the_papers_bias_of_absolute_distances() -> None:
    made = bias(2, 3, 5)
    dense = made(3, 5)
    assert dense.shape == (2, 15, 15)
    for i, j, r, t in [(0, 0, 2, 4), (2, 1, 0, 3), (1, 1, 1, 1)]:
        assert torch.equal(dense[:, i * 5 + j, r * 5 + t], made.table[0, :, abs(i - r), abs(j - t)])


def test_two_panels_with_segments_have_one_table_within_and_another_across_the_seam() -> None:
    made = bias(2, 3, 5, panels=2, segments=True)
    dense = made(3, 5)
    assert dense.shape == (2, 30, 30)
    assert torch.equal(dense[:, 7, 9], made.table[0, :, 0, 2])
    assert torch.equal(dense[:, 7, 15 + 9], made.table[1, :, 0, 2])
    assert torch.equal(dense[:, 15 + 7, 9], made.table[1, :, 0, 2])
    assert torch.equal(dense[:, 15 + 7, 15 + 9], made.table[0, :, 0, 2])


def test_the_concatenated_bias_counts_the_columns_of_t() -> None:
    made = bias(2, 3, 5, panels=2, concatenated=True)
    dense = made(3, 5)
    assert made.table.shape == (1, 2, 3, 10)
    for (a, i, j), (b, r, t) in [((0, 0, 2), (1, 2, 4)), ((1, 2, 1), (0, 0, 3)), ((1, 1, 1), (1, 0, 4))]:
        distance = abs((a * 5 + j) - (b * 5 + t))
        assert torch.equal(dense[:, a * 15 + i * 5 + j, b * 15 + r * 5 + t], made.table[0, :, abs(i - r), distance])
