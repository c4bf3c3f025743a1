"""XCiT against the float64 loops and torch's own layers, its known sizes, its dropouts, and its linear cost."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from drawing import assert_equal_with_gradients, draw
from torch import Tensor, nn

from diptych_model.mixers import Place
from diptych_studies import reference
from diptych_studies.flops import count_flops, count_parameters
from diptych_studies.mixers import CrossCovariance, Transformer
from diptych_studies.mixers.cross_covariance import ClassAttention, CrossCovarianceAttention, LocalPatchInteraction
from diptych_studies.networks.xcit import ClassBlock, CrossCovarianceBlock, PatchStem, Positions, XCiT

TINY: dict[str, Any] = {"d": 8, "depth": 2, "heads": 2, "patch": 4, "class_depth": 2}


def drawn(module: nn.Module, seed: int) -> Any:
    """Drawn parameters and running statistics, in evaluation mode."""
    for place, parameter in enumerate(module.parameters()):
        parameter.data = draw(*parameter.shape, seed=100 * seed + place) * 0.5
    for place, part in enumerate(module.modules()):
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean = draw(part.num_features, seed=100 * seed + 50 + place) * 0.3
            part.running_var = draw(part.num_features, seed=100 * seed + 70 + place).exp()
    return module.double().eval()


def tiny(**settings: Any) -> XCiT:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return XCiT(5, **TINY | settings)


def normed(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    deviation = (((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True) + norm.eps).sqrt()
    return (x - x.mean(-1, keepdim=True)) / deviation * norm.weight + norm.bias


def fed(x: Tensor, feed: nn.Sequential) -> Tensor:
    first, second = (layer for layer in feed if isinstance(layer, nn.Linear))
    y = x @ first.weight.T + first.bias
    y = y * 0.5 * (1 + torch.erf(y / 2**0.5))
    return y @ second.weight.T + second.bias


def attended(made: CrossCovarianceAttention, x: Tensor) -> Tensor:
    weights = {name: getattr(made, name)[:, :, 0, 0] for name in ("W_Q", "W_K", "W_V", "W_O")}
    return reference.cross_covariance_attention([x], weights, made.heads, made.tau[0], made.tau[0])[0]


def interacted(made: LocalPatchInteraction, x: Tensor) -> Tensor:
    assert made.norm.running_mean is not None
    assert made.norm.running_var is not None
    windows = [{"H": H.permute(0, 2, 3, 1), "b": b} for H, b in ((made.H_1, made.b_1), (made.H_2, made.b_2))]
    norm = {"mean": made.norm.running_mean, "variance": made.norm.running_var, "eps": made.norm.eps}
    norm |= {"weight": made.norm.weight, "bias": made.norm.bias}
    return reference.local_patch_interaction([x], *windows, norm)[0]  # type: ignore[arg-type]


def asked(made: ClassAttention, token: Tensor, x: Tensor) -> Tensor:
    W, b = made.attention.in_proj_weight.chunk(3), made.attention.in_proj_bias.chunk(3)
    weights = {f"W_{name}": W[place] for place, name in enumerate("QKV")}
    weights |= {f"b_{name}": b[place] for place, name in enumerate("QKV")}
    weights |= {"W_O": made.attention.out_proj.weight, "b_O": made.attention.out_proj.bias}
    return reference.class_attention(token, x, weights, made.attention.num_heads)


def test_a_layer_and_all_its_gradients_are_xca_lpi_and_feed_forward_each_scaled_and_added() -> None:
    made = drawn(CrossCovarianceBlock(6, 7, CrossCovarianceAttention(6, 2)), seed=1)
    x = draw(2, 3, 5, 6, seed=2).requires_grad_()
    expected = []
    for one in x:
        y = one + made.scales[0] * attended(made.attention, normed(one, made.norms[0]))
        y = y + made.scales[1] * interacted(made.local, normed(y, made.norms[1]))
        expected.append(y + made.scales[2] * fed(normed(y, made.norms[2]), made.feed))
    assert_equal_with_gradients(made(x), torch.stack(expected), [x, *made.parameters()])


def test_a_class_layer_and_all_its_gradients_are_class_attention_and_feed_forward() -> None:
    made = drawn(ClassBlock(6, 2, 7), seed=3)
    token, x = draw(2, 6, seed=4).requires_grad_(), draw(2, 5, 6, seed=5).requires_grad_()
    expected = []
    for one, tokens in zip(token, x, strict=True):
        z = one + made.scales[0] * asked(made.attention, normed(one, made.norms[0]), normed(tokens, made.norms[0]))
        expected.append(z + made.scales[1] * fed(normed(z, made.norms[1]), made.feed))
    assert_equal_with_gradients(made(token, x), torch.stack(expected), [token, x, *made.parameters()])


def test_the_stem_is_torchs_convolutions_of_stride_two() -> None:
    made, x = drawn(PatchStem(3, 8, 8), seed=6), draw(2, 19, 16, 3, seed=7)
    y = x.permute(0, 3, 1, 2)
    for place in (0, 3, 6):
        y = F.conv2d(y, made.layers[place].H, stride=2, padding=1)
        norm = made.layers[place + 1]
        y = F.batch_norm(y, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        y = F.gelu(y) if place < 6 else y
    torch.testing.assert_close(made(x), y.permute(0, 2, 3, 1))
    assert made(x).shape == (2, 3, 2, 8)
    assert [layer.H.shape[0] for layer in made.layers[::3]] == [2, 4, 8]


def test_no_two_places_of_a_grid_are_alike_and_a_finer_grid_passes_through_them() -> None:
    made = drawn(Positions(6), seed=8)
    places = made(3, 5)
    assert places.shape == (3, 5, 6)
    assert torch.cdist(places.flatten(0, 1), places.flatten(0, 1)).fill_diagonal_(1).min() > 1e-3
    torch.testing.assert_close(made(6, 10)[1::2, 1::2], places)


@pytest.mark.parametrize(
    ("d", "heads", "millions"), [(128, 4, 3.05), (192, 4, 6.72), (384, 8, 26.25)], ids=["N12", "T12", "S12"]
)
def test_the_parameters_of_the_known_sizes(d: int, heads: int, millions: float) -> None:
    with torch.device("meta"):
        network = XCiT(1000, d=d, depth=12, heads=heads, patch=16)
    # The published ones have biases in XCA: four vectors a layer.
    assert (count_parameters(network) + 12 * 4 * d) / 1e6 == pytest.approx(millions, abs=0.006)


def test_a_result_does_not_depend_on_what_else_is_in_the_batch_nor_is_a_size_fixed() -> None:
    network, x = tiny().eval(), draw(3, 20, 12, 3).float()
    torch.testing.assert_close(network(x)[1:2], network(x[1:2]))
    assert network(x[:, :9, :7]).shape == (3, 5)


@pytest.mark.parametrize("panels", [1, 2])
def test_the_dropout_of_attention_is_that_of_its_coefficients(panels: int) -> None:
    made = CrossCovarianceAttention(6, 2, panels=panels, segments=panels > 1, attention_dropout=0.4).double()
    for place, W in enumerate((made.W_Q, made.W_K, made.W_V)):
        W.data = draw(6, 6, 1, 1, seed=place)
    made.W_O.data = torch.eye(6, dtype=torch.float64)[:, :, None, None]
    x = draw(panels, 3, 5, 6, seed=9)
    torch.manual_seed(0)
    dropped = made(x)
    # With values of one every output is the sum of the coefficients that were left: it is one in the mean only.
    made.W_V.data = torch.zeros(6, 6, 1, 1, dtype=torch.float64)
    made.W_V.data[:, 0] = 1
    ones = torch.cat([torch.ones(panels, 3, 5, 1, dtype=torch.float64), x[..., 1:]], -1)
    sums = made(ones)
    assert sums.var((1, 2)).max() < 1e-20  # dropped for all tokens alike
    assert sums.std() > 0.1
    made.eval()
    torch.testing.assert_close(made(ones), torch.ones_like(ones))
    assert (made(x) - dropped).abs().max() > 1e-3


def test_the_other_dropout_is_that_of_the_results() -> None:
    made, x = drawn(CrossCovarianceAttention(6, 2, dropout=0.4), seed=10), draw(1, 3, 5, 6, seed=11)
    torch.manual_seed(0)
    expected = F.dropout(made(x), 0.4)
    made.train()
    torch.manual_seed(0)
    torch.testing.assert_close(made(x), expected)
    assert (expected == 0).any()


def test_its_cost_is_linear_in_the_tokens_and_that_of_self_attention_has_a_square() -> None:
    def cost(mixer: Any, side: int) -> int:
        with torch.device("meta"):
            return count_flops(mixer.build(Place(8, 8, side, side)), torch.empty(1, side, side, 8))

    tokens = [4, 16, 64]
    linear, square = (
        [cost(mixer, int(T**0.5)) for T in tokens] for mixer in (CrossCovariance(heads=2), Transformer(2))
    )
    assert [each // T for each, T in zip(linear, tokens, strict=True)] == [linear[0] // 4] * 3
    # What self-attention costs beyond a multiple of its tokens: two products of T x T x d.
    beyond = [each - T * (square[0] - 4 * 4**2 * 8) // 4 for each, T in zip(square, tokens, strict=True)]
    assert beyond == [4 * T**2 * 8 for T in tokens]
