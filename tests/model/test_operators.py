"""SAC and MSAC against the float64 loops and against independent oracles; every size another prime."""

import pytest
import torch
from drawing import assert_equal_with_gradients, draw, drawn
from torch import Tensor

from diptych_model import MSAC, SAC, Scale, reference, relative_attention
from diptych_model.panels import join_panels


def in_the_papers_layout(sac: SAC) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The filters (f, n, m, d) and those before them, a separable filter multiplied out to the n x m filter it is."""
    named: dict[str, Tensor] = {name: p for name, p in sac.named_parameters() if name.startswith("H_")}
    before: list[Tensor] = list(sac.before)
    if sac.scale.separable:
        last = before.pop()
        before = [torch.diag_embed(one[:, 0].permute(1, 2, 0)).permute(3, 2, 0, 1) for one in before]
        for name in ("H_Q", "H_K", "H_V", "H_R"):
            if name in named:
                named[name] = torch.einsum("fdij,dkl->fdkl", named[name], last[:, 0])
    return {name: p.permute(0, 2, 3, 1) for name, p in named.items()}, [p.permute(0, 2, 3, 1) for p in before]


def loops(sac: SAC, panels: Tensor) -> Tensor:
    """The reference on the panels (P, N, M, d) of one picture."""
    filters, before = in_the_papers_layout(sac)
    scale = sac.scale
    table = torch.zeros(1, scale.heads, 9, 9, dtype=torch.float64) if sac.bias is None else sac.bias.table
    sizes = {"stride": scale.stride, "dilation": scale.dilation, "groups": scale.groups}
    result = reference.sac(list(panels), filters, scale.heads, table[0], table[-1], before=before, **sizes)
    return torch.stack(result)


CASES = {
    "one head of 2 x 2, as in Figure 1": (Scale(2, 2, heads=1, d_a=3, d_o=2), {}),
    "an uneven window": (Scale(3, 2, heads=2, d_a=3, d_o=5), {}),
    "H_R": (Scale(2, 3, heads=3, d_a=2, d_o=3, residual_convolution=True), {}),
    "separable": (Scale(3, 3, heads=2, d_a=2, d_o=3, separable=True), {"panels": 2, "segments": True}),
    "separable with H_R": (
        Scale(3, 1, heads=2, d_a=5, d_o=2, separable=True, residual_convolution=True),
        {"panels": 2, "segments": True},
    ),
    "two panels": (Scale(1, 1, heads=2, d_a=3, d_o=2), {"panels": 2}),
    "no bias": (Scale(2, 3, heads=2, d_a=3, d_o=2), {"panels": 2, "bias": "none"}),
    "stride of an even window over two panels": (Scale(2, 4, heads=2, d_a=3, d_o=5, stride=2), {"panels": 2}),
    "stride, dilation, separable": (Scale(3, 3, heads=2, d_a=3, d_o=5, stride=2, dilation=2, separable=True), {}),
    "groups": (Scale(2, 3, heads=2, d_a=7, d_o=14, groups=7, residual_convolution=True), {}),
    "a cascade": (Scale(3, 2, heads=2, d_a=3, d_o=5, cascade=2, residual_convolution=True), {}),
    "a strided separable cascade": (Scale(3, 3, heads=2, d_a=3, d_o=5, cascade=3, stride=2, separable=True), {}),
}


@pytest.mark.parametrize(("scale", "options"), CASES.values(), ids=CASES)
def test_sac_and_all_its_gradients_equal_the_loops(scale: Scale, options: dict) -> None:
    sac = drawn(SAC(7, 3, 5, scale, **options), seed=2)
    x = draw(sac.panels, 3, 5, 7, seed=3).requires_grad_()
    wanted = [p for p in sac.parameters() if p.requires_grad]
    assert_equal_with_gradients(sac(x), loops(sac, x), [x, *wanted])


def test_with_an_open_seam_and_its_columns_counted_msac_is_the_papers_on_the_one_picture_t() -> None:
    scales = [Scale(1, 1, heads=2, d_a=3, d_o=2), Scale(3, 2, heads=2, d_a=3, d_o=2)]
    ours = drawn(MSAC(5, 3, 5, scales, panels=2, bias="concatenated", open_seam=True), seed=7)
    literal = MSAC(5, 3, 10, scales).double()
    literal.load_state_dict(ours.state_dict())
    x = draw(4, 3, 5, 5, seed=8)
    torch.testing.assert_close(join_panels(ours(x), 2), literal(join_panels(x, 2)))


def test_a_causal_sac_is_blind_to_what_comes_later() -> None:
    sac = drawn(SAC(5, 1, 11, Scale(1, 3, heads=2, d_a=3, d_o=2), causal=True), seed=9)
    x = draw(1, 1, 11, 5, seed=10)
    changed = x.clone()
    changed[0, 0, 6:] += 1
    before, after = sac(x)[0, 0], sac(changed)[0, 0]
    torch.testing.assert_close(before[:6], after[:6])
    assert (before[6:] - after[6:]).abs().amax(-1).min() > 1e-6


@pytest.mark.parametrize("widths", [((3, 2), (3, 2)), ((3, 2), (5, 3))], ids=["one attention call", "unequal widths"])
def test_msac_and_all_its_gradients_are_its_scales_reduced_by_h_phi(widths: tuple[tuple[int, int], ...]) -> None:
    scales = [Scale(n, n, heads=2, d_a=a, d_o=o) for n, (a, o) in zip((1, 3), widths, strict=True)]
    msac = drawn(MSAC(5, 2, 3, scales, d_phi=7), seed=5)
    x = draw(1, 2, 3, 5, seed=6).requires_grad_()
    gammas = [loops(sac, x)[0] for sac in msac.sacs]
    expected = reference.msac(gammas, msac.H_phi.permute(0, 2, 3, 1))
    assert_equal_with_gradients(msac(x)[0], expected, [x, *msac.parameters()])


def test_a_one_by_one_sac_without_bias_is_permutation_equivariant() -> None:
    sac = drawn(SAC(5, 3, 7, Scale(1, 1, heads=2, d_a=3, d_o=2), bias="none"), seed=9)
    x, order = draw(1, 21, 5, seed=10), torch.randperm(21, generator=torch.Generator().manual_seed(1))
    plain, moved = sac(x.view(1, 3, 7, 5)).view(21, 2), sac(x[:, order].view(1, 3, 7, 5)).view(21, 2)
    torch.testing.assert_close(plain[order], moved)


def test_every_output_is_a_convex_combination_over_the_key_positions() -> None:
    q, k, bias = draw(2, 3, 11, 5), draw(2, 3, 11, 5, seed=1), draw(3, 11, 11, seed=2)
    ones = relative_attention(q, k, torch.ones(2, 3, 11, 1, dtype=torch.float64), bias)
    torch.testing.assert_close(ones, torch.ones_like(ones))
    # A key whose bias is overwhelming is the only one looked at, by every query: the softmax is over keys, not queries.
    bias[:, :, 4] = 1e4
    v = draw(2, 3, 11, 2, seed=3)
    torch.testing.assert_close(relative_attention(q, k, v, bias), v[:, :, 4:5].expand_as(v))


@pytest.mark.parametrize("bias", ["panel", "concatenated"])
def test_a_larger_grid_clips_distances_to_the_reach_of_the_bias_table(bias: str) -> None:
    small = drawn(SAC(5, 2, 3, Scale(3, 3, heads=2, d_a=3, d_o=2), panels=2, bias=bias), seed=11)
    large = SAC(5, 4, 7, Scale(3, 3, heads=2, d_a=3, d_o=2), panels=2, bias=bias).double()
    state = small.state_dict()
    assert large.bias is not None
    table, (rows, reach) = state["bias.table"], large.bias.table.shape[2:]
    last = [torch.arange(size).clamp(max=known - 1) for size, known in ((rows, 2), (reach, table.shape[3]))]
    state["bias.table"] = table[:, :, last[0]][:, :, :, last[1]]
    large.load_state_dict(state)
    x = draw(2, 4, 7, 5, seed=12)
    torch.testing.assert_close(large(x), small(x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MSAC(5, 2, 3, []), "needs at least one scale"),
        (lambda: MSAC(5, 2, 3, [Scale(), Scale(stride=2)]), r"one stride, got \[1, 2\]"),
        (lambda: Scale(heads=0), "must be positive"),
        (lambda: Scale(separable=True, groups=2), "leave groups at 1, got 2"),
        (lambda: Scale(heads=3, d_a=5, groups=2), "multiples of 2, got 15 and 48"),
        (lambda: Scale(heads=2, d_o=5, groups=2, residual_convolution=True), "multiple of them for H_R, got 5"),
        (lambda: SAC(5, 2, 3, Scale(), bias="panl"), "bias must be one of panel, concatenated, none, got 'panl'"),
        (lambda: SAC(5, 2, 3, Scale(), panels=2, bias="none", segments=True), "a relative segment lives in the bias"),
        (lambda: SAC(6, 2, 3, Scale(2, 2, groups=2))(draw(1, 2, 3, 3)), "takes 6 channels, the picture has 3"),
        (lambda: SAC(5, 2, 3, Scale(groups=2)), "2 groups need d to be a multiple of them, got 5 channels"),
        (
            lambda: relative_attention(draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(1, 2, 3, 4), draw(2, 5, 5)),
            r"\(2, 3, 3\), got \(2, 5, 5\)",
        ),
        (lambda: relative_attention(draw(1, 2, 3, 4), draw(1, 2, 3, 5), draw(1, 2, 3, 4), draw(2, 3, 3)), "must agree"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_shapes_that_do_not_fit_are_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
