"""Attention in the forms that the papers write it in; the relative positional bias as a dense tensor, for one panel as
in Eq. 3, for two with and without segments.
"""

import torch
from drawing import draw

from diptych_model import SAC, Scale, convolve
from diptych_model.attention import RelativeBias, attention_coefficients, relative_attention


def bias(heads: int, rows: int, cols: int, **options: int | bool) -> RelativeBias:
    made = RelativeBias(heads, rows, cols, **options)  # type: ignore[arg-type]
    made.table.data = torch.randn(made.table.shape, generator=torch.Generator().manual_seed(0))
    return made


def test_self_attention_in_the_matrices_of_section_1_is_a_one_by_one_sac() -> None:
    sac = SAC(7, 1, 5, Scale(1, 1, heads=1, d_a=3, d_o=2), bias="none").double()
    sac.H_Y.data = torch.eye(2, dtype=torch.float64)[:, :, None, None]
    X = draw(7, 5, seed=1)
    W_Q, W_K, W_V = (H[:, :, 0, 0] for H in (sac.H_Q, sac.H_K, sac.H_V))
    alpha = (W_Q @ X).T @ (W_K @ X)
    # Of a query's scores: over a row, or no column of Y would be a mean of the columns of V(X).
    A = torch.stack([row.exp() / row.exp().sum() for row in alpha / 3**0.5])
    Y = (W_V @ X) @ A.T
    torch.testing.assert_close(sac(X.T[None, None])[0, 0].T, Y)


def test_scores_are_the_keys_convolved_with_each_query_as_a_filter() -> None:
    q, k = draw(3, 5, 7, seed=1), draw(3, 5, 7, seed=2)
    alpha = convolve(k[None], q.reshape(15, 7, 1, 1))[0]  # Eq. 2: [r, t] by the query ij
    a = (alpha.flatten(0, 1) / 7**0.5).softmax(0)
    weights = attention_coefficients(q.reshape(1, 1, 15, 7), k.reshape(1, 1, 15, 7))[0, 0]
    torch.testing.assert_close(weights, a.T)


def test_the_written_out_attention_is_that_of_the_guide() -> None:
    x = draw(5, 3, seed=1)
    similarity = [[torch.exp(x_i @ x_j / 3**0.5) for x_j in x] for x_i in x]
    weights = [torch.stack(row) / sum(row) for row in similarity]
    y = torch.stack([(w[:, None] * x).sum(0) for w in weights])
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(relative_attention(*[x[None, None]] * 3)[0, 0], y)


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
