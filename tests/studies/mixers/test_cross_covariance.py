"""XCiT's layers and class attention against the float64 loops and independent oracles; every size another prime."""

from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from drawing import assert_equal_with_gradients, draw
from torch import Tensor, nn

from diptych_model.mixers import Place
from diptych_studies import reference
from diptych_studies.mixers import CrossCovariance
from diptych_studies.mixers.cross_covariance import (
    ClassAttention,
    CrossCovarianceAttention,
    LocalPatchInteraction,
)
from diptych_studies.mixers.places import has_facing_panel

M = TypeVar("M", bound=nn.Module)


def drawn(module: M, seed: int) -> M:
    """Drawn parameters and running statistics, in evaluation mode."""
    for place, parameter in enumerate(module.parameters()):
        parameter.data = draw(*parameter.shape, seed=100 * seed + place) * 0.7
    for place, part in enumerate(module.modules()):
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean = draw(part.num_features, seed=100 * seed + 50 + place) * 0.3
            part.running_var = draw(part.num_features, seed=100 * seed + 70 + place).exp()
    return module.double().eval()


def attended(made: CrossCovarianceAttention, panels: list[Tensor]) -> list[Tensor]:
    weights = {name: getattr(made, name)[:, :, 0, 0] for name in ("W_Q", "W_K", "W_V", "W_O")}
    return reference.cross_covariance_attention(panels, weights, made.heads, made.tau[0], made.tau[-1])


def parts_of(made: LocalPatchInteraction) -> tuple[Any, Any, Any]:
    assert made.norm.running_mean is not None
    assert made.norm.running_var is not None
    first = {"H": made.H_1.permute(0, 2, 3, 1), "b": made.b_1}
    second = {"H": made.H_2.permute(0, 2, 3, 1), "b": made.b_2}
    norm = {"mean": made.norm.running_mean, "variance": made.norm.running_var, "eps": made.norm.eps}
    return first, second, norm | {"weight": made.norm.weight, "bias": made.norm.bias}


@pytest.mark.parametrize(
    ("batch", "panels", "segments"), [(1, 1, False), (3, 1, False), (1, 2, True), (2, 2, False), (2, 2, True)]
)
def test_xca_and_all_its_gradients_equal_the_loops(batch: int, panels: int, segments: bool) -> None:
    made = drawn(CrossCovarianceAttention(15, 3, panels=panels, segments=segments), seed=1)
    x = draw(batch * panels, 2, 7, 15, seed=2).requires_grad_()
    expected = [y for one in x.unflatten(0, (batch, panels)) for y in attended(made, list(one))]
    assert_equal_with_gradients(made(x), torch.stack(expected), [x, *made.parameters()])


@pytest.mark.parametrize(
    ("panels", "faced", "stride", "n"), [(1, False, 1, 3), (1, False, 2, 2), (2, True, 1, 3), (2, True, 2, 3)]
)
def test_lpi_and_all_its_gradients_equal_the_loops(panels: int, faced: bool, stride: int, n: int) -> None:
    made = drawn(LocalPatchInteraction(7, n, stride=stride, faced=faced), seed=3)
    x = draw(2 * panels, 3, 5, 7, seed=4).requires_grad_()
    first, second, norm = parts_of(made)
    expected = [
        y
        for one in x.unflatten(0, (2, panels))
        for y in reference.local_patch_interaction(list(one), first, second, norm, stride=stride)
    ]
    assert_equal_with_gradients(made(x), torch.stack(expected), [x, *made.parameters()])


@pytest.mark.parametrize(
    ("panels", "stride", "open_seam", "segments", "d_o"),
    [(1, 1, False, False, 6), (1, 2, False, False, 5), (2, 1, False, True, 6), (2, 2, True, True, 7)],
)
def test_the_mixer_and_all_its_gradients_are_xca_and_then_lpi_of_the_normalised_sum(
    panels: int, stride: int, open_seam: bool, segments: bool, d_o: int
) -> None:
    place = Place(6, d_o, 3, 4, panels=panels, stride=stride, open_seam=open_seam, segments=segments)
    made = drawn(CrossCovariance(3, 2).build(place), seed=5)
    u = draw(2 * panels, 3, 4, 6, seed=6).requires_grad_()
    assert made.local.H_1.shape == made.local.H_2.shape == (6, 2 if has_facing_panel(place) else 1, 3, 3)
    between = {"weight": made.norm.weight, "bias": made.norm.bias, "eps": made.norm.eps}
    expected = []
    for one in u.unflatten(0, (2, panels)):
        us, a = list(one), attended(made.attention, list(one))
        if open_seam:
            us, a = [torch.cat(us, 1)], [torch.cat(a, 1)]
        ys = reference.cross_covariance_layer(us, a, between, *parts_of(made.local), stride=stride)
        expected += list(ys[0].chunk(2, 1)) if open_seam else ys
    result = torch.stack(expected)
    if made.H_Y is not None:
        result = torch.stack([reference.convolution(y, made.H_Y.permute(0, 2, 3, 1)) for y in result])
    assert_equal_with_gradients(made(u), result, [u, *made.parameters()])


def test_xca_is_scaled_dot_product_attention_with_channels_for_tokens() -> None:
    made, x = drawn(CrossCovarianceAttention(6, 1), seed=9), draw(2, 3, 7, 6, seed=10)
    q, k, v = (F.linear(x.flatten(1, 2), W[:, :, 0, 0]).transpose(1, 2) for W in (made.W_Q, made.W_K, made.W_V))
    q, k = q / q.norm(dim=2, keepdim=True), k / k.norm(dim=2, keepdim=True)
    y = F.scaled_dot_product_attention(q, k, v, scale=made.tau.item())
    expected = F.linear(y.transpose(1, 2), made.W_O[:, :, 0, 0]).unflatten(1, (3, 7))
    torch.testing.assert_close(made(x), expected)


@pytest.mark.parametrize("segments", [False, True])
def test_the_coefficients_of_every_output_channel_sum_to_one_over_the_key_channels(segments: bool) -> None:
    made = drawn(CrossCovarianceAttention(6, 2, panels=2, segments=segments), seed=11)
    # All value channels are the same map, so that any mean of them is that map.
    made.W_V.data[:] = made.W_V.data[:1].clone()
    x = draw(4, 3, 5, 6, seed=12)
    value = x @ made.W_V[0, :, 0, 0]
    torch.testing.assert_close(made(x), value.unsqueeze(-1) * made.W_O.sum((1, 2, 3)))


def test_the_length_of_queries_and_keys_does_not_matter_to_xca() -> None:
    made, x = drawn(CrossCovarianceAttention(6, 2), seed=13), draw(2, 3, 5, 6, seed=14)
    before = made(x)
    made.W_Q.data *= 3
    made.W_K.data *= 0.2
    torch.testing.assert_close(made(x), before)


def class_weights(made: ClassAttention) -> dict[str, Tensor]:
    attention = made.attention
    assert attention.in_proj_weight is not None
    assert attention.in_proj_bias is not None
    W, b = attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)
    named = {f"W_{name}": W[place] for place, name in enumerate("QKV")}
    named |= {f"b_{name}": b[place] for place, name in enumerate("QKV")}
    return named | {"W_O": attention.out_proj.weight, "b_O": attention.out_proj.bias}


@pytest.mark.parametrize("batch", [1, 2])
def test_class_attention_and_all_its_gradients_equal_the_loops(batch: int) -> None:
    made = drawn(ClassAttention(15, 3), seed=29)
    token, x = draw(batch, 15, seed=30).requires_grad_(), draw(batch, 7, 15, seed=31).requires_grad_()
    weights = class_weights(made)
    expected = [reference.class_attention(*one, weights, 3) for one in zip(token, x, strict=True)]
    assert_equal_with_gradients(made(token, x), torch.stack(expected), [token, x, *made.parameters()])


def test_only_of_two_panels_segments_give_a_temperature_to_each_kind_of_token() -> None:
    def kinds(**switches: Any) -> int:
        return len(CrossCovariance(heads=2).build(Place(6, 6, 3, 5, **switches)).attention.tau)

    assert kinds(panels=2, segments=True) == 2
    assert kinds(panels=2) == 1
    assert kinds(segments=True) == 1
