"""The Transformer's encoder and decoder against the loops and against torch's own layers; every size another prime."""

from collections.abc import Mapping

import pytest
import torch
from drawing import assert_equal_with_gradients, draw
from torch import Tensor, nn

from diptych_model.mixers import Place
from diptych_studies import reference
from diptych_studies.mixers import MIXERS, Decoder, Transformer
from diptych_studies.mixers.transformer import (
    CrossAttention,
    DecoderLayer,
    EncoderLayer,
    JointAttention,
    causal_mask,
    sinusoids,
)


def randomized(module, seed: int):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4
    return module.double()


def weights_of(attention: nn.MultiheadAttention) -> dict[str, Tensor]:
    named: dict[str, Tensor] = {"W_O": attention.out_proj.weight}
    if attention.in_proj_weight is not None:
        named |= dict(zip(("W_Q", "W_K", "W_V"), attention.in_proj_weight.chunk(3), strict=True))
    else:
        named |= {name: getattr(attention, f"{name[2].lower()}_proj_weight") for name in ("W_Q", "W_K", "W_V")}
    if attention.in_proj_bias is not None:
        named |= dict(zip(("b_Q", "b_K", "b_V"), attention.in_proj_bias.chunk(3), strict=True))
        named["b_O"] = attention.out_proj.bias
    return named


def parts_of(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> dict[str, Mapping[str, Tensor]]:
    parts: dict[str, Mapping[str, Tensor]] = {
        "self": weights_of(layer.self_attn),
        "feed": {
            "W_1": layer.linear1.weight,
            "b_1": layer.linear1.bias,
            "W_2": layer.linear2.weight,
            "b_2": layer.linear2.bias,
        },
    }
    for name in ("norm1", "norm2", "norm3"):
        if hasattr(layer, name):
            parts[name] = norm_of(getattr(layer, name))
    if isinstance(layer, nn.TransformerDecoderLayer):
        parts["cross"] = weights_of(layer.multihead_attn)
    return parts


def norm_of(norm: nn.LayerNorm) -> dict[str, Tensor]:
    return {"gain": norm.weight, "shift": norm.bias}


def pictures_of(x: Tensor, panels: int) -> list[Tensor]:
    return list(x.reshape(-1, panels, *x.shape[1:]))


def joint_by_loops(module: JointAttention, heads: int, x: Tensor, stride: int) -> Tensor:
    """Every picture by itself: all tokens as one list, a number added for each pair of panels, the kept ones kept."""
    results = []
    for picture in pictures_of(x, module.panels):
        panels, rows, cols, d = picture.shape
        tokens, place = picture.reshape(-1, d), torch.arange(panels).repeat_interleave(rows * cols)
        mask = None
        if module.segment is not None:
            mask = module.segment[(place[:, None] != place[None, :]).long()].permute(2, 0, 1)
        y = reference.multi_head(tokens, tokens, weights_of(module.attention), heads, mask)
        if isinstance(module.out, nn.Linear):
            y = reference.convolution(y[None], module.out.weight[:, None, None])[0]
        results.append(y.reshape(panels, rows, cols, -1)[:, ::stride, ::stride])
    return torch.cat(results)


@pytest.mark.parametrize(
    ("batch", "panels", "segments", "stride", "d_o"),
    [(1, 1, False, 1, 6), (3, 1, True, 2, 5), (1, 2, True, 1, 6), (3, 2, False, 1, 7), (2, 2, True, 2, 5)],
)
def test_joint_attention_and_all_its_gradients_equal_the_loops(
    batch: int, panels: int, segments: bool, stride: int, d_o: int
) -> None:
    place = Place(6, d_o, 3, 5, panels=panels, stride=stride, segments=segments)
    module = randomized(Transformer(3).build(place), seed=1)
    x = draw(batch * panels, 3, 5, 6, seed=2).requires_grad_()
    assert_equal_with_gradients(module(x), joint_by_loops(module, 3, x, stride), [x, *module.parameters()])


@pytest.mark.parametrize(("batch", "stride", "d_o"), [(1, 1, 6), (3, 1, 7), (2, 2, 5)])
def test_the_facing_decoder_and_all_its_gradients_equal_the_loops(batch: int, stride: int, d_o: int) -> None:
    module = randomized(Decoder(3).build(Place(6, d_o, 2, 5, panels=2, stride=stride)), seed=3)
    x = draw(batch * 2, 2, 5, 6, seed=4).requires_grad_()
    parts = {"self": weights_of(module.own), "cross": weights_of(module.cross), "norm": norm_of(module.norm)}
    results = []
    for picture in pictures_of(x, 2):
        for own, other in ((picture[0], picture[1]), (picture[1], picture[0])):
            y = reference.facing_decoder(own.reshape(10, 6), other.reshape(10, 6), parts, 3)
            if isinstance(module.out, nn.Linear):
                y = reference.convolution(y[None], module.out.weight[:, None, None])[0]
            results.append(y.reshape(2, 5, d_o)[::stride, ::stride])
    assert_equal_with_gradients(module(x), torch.stack(results), [x, *module.parameters()])


@pytest.mark.parametrize("kind", ["transformer", "decoder"])
@pytest.mark.parametrize("heads", [2, 3])
def test_evaluation_without_gradients_gives_the_same_numbers_whatever_the_mates(kind: str, heads: int) -> None:
    module = randomized(MIXERS[kind](heads=heads).build(Place(6, 6, 3, 5, panels=2)), seed=13)  # pyright: ignore
    x = draw(6, 3, 5, 6, seed=14)
    trained = module(x)
    with torch.no_grad():
        torch.testing.assert_close(module.eval()(x), trained)
        torch.testing.assert_close(module(x[2:4]), trained[2:4])


PADDING = torch.tensor([[False] * 5, [False, False, True, True, False], [True, False, False, False, True]])


def additive(padding: Tensor, mask: Tensor | None) -> Tensor:
    hidden = torch.zeros(padding.shape, dtype=torch.float64).masked_fill(padding, -torch.inf)
    return hidden if mask is None else hidden + mask


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_the_encoder_layer_and_all_its_gradients_equal_the_loops(pre_norm: bool, causal: bool) -> None:
    layer = randomized(EncoderLayer(6, 2, 7, pre_norm=pre_norm), seed=15)
    x, padding = draw(3, 5, 6, seed=16).requires_grad_(), PADDING if not causal else PADDING[[0, 1, 1]]
    mask = causal_mask(5).double() if causal else None
    expected = torch.stack(
        [
            reference.encoder_layer(
                one, parts_of(layer.layer), 2, mask=additive(hidden.expand(5, 5), mask), pre_norm=pre_norm
            )
            for one, hidden in zip(x, padding, strict=True)
        ]
    )
    assert_equal_with_gradients(layer(x, mask=mask, padding=padding), expected, [x, *layer.parameters()])
    with torch.no_grad():
        torch.testing.assert_close(layer.eval()(x, mask=mask, padding=padding), expected)
        bare = torch.stack([reference.encoder_layer(one, parts_of(layer.layer), 2, pre_norm=pre_norm) for one in x])
        torch.testing.assert_close(layer(x), bare)


@pytest.mark.parametrize(("pre_norm", "d_memory"), [(False, 11), (True, 11), (True, None)])
def test_the_decoder_layer_and_all_its_gradients_equal_the_loops(pre_norm: bool, d_memory: int | None) -> None:
    layer = randomized(DecoderLayer(6, 2, 7, d_memory=d_memory, pre_norm=pre_norm), seed=17)
    x, memory = draw(3, 3, 6, seed=18).requires_grad_(), draw(3, 5, d_memory or 6, seed=19).requires_grad_()
    mask, padding = causal_mask(3).double(), torch.tensor([[False] * 3, [False, False, True], [False, True, False]])
    expected = torch.stack(
        [
            reference.decoder_layer(
                one,
                seen,
                parts_of(layer.layer),
                2,
                mask=additive(hidden.expand(3, 3), mask),
                memory_mask=additive(unseen.expand(3, 5), None),
                pre_norm=pre_norm,
            )
            for one, seen, hidden, unseen in zip(x, memory, padding, PADDING, strict=True)
        ]
    )
    computed = layer(x, memory, mask=mask, padding=padding, memory_padding=PADDING)
    assert_equal_with_gradients(computed, expected, [x, memory, *layer.parameters()])
    with torch.no_grad():
        again = layer.eval()(x, memory, mask=mask, padding=padding, memory_padding=PADDING)
    torch.testing.assert_close(again, expected)


@pytest.mark.parametrize("d_memory", [11, 6])
def test_cross_attention_and_all_its_gradients_equal_the_loops(d_memory: int) -> None:
    module = randomized(CrossAttention(6, 3, d_memory), seed=20)
    question, regions = draw(3, 2, 6, seed=21).requires_grad_(), draw(3, 5, d_memory, seed=22).requires_grad_()
    expected = torch.stack(
        [
            reference.multi_head(x, z, weights_of(module.attention), 3, additive(hidden.expand(2, 5), None))
            for x, z, hidden in zip(question, regions, PADDING, strict=True)
        ]
    )
    computed = module(question, regions, padding=PADDING)
    assert_equal_with_gradients(computed, expected, [question, regions, *module.parameters()])


def test_dividing_the_mask_by_the_root_of_the_width_as_equation_6_does_changes_nothing() -> None:
    assert torch.equal(causal_mask(7), causal_mask(7) / 3**0.5)
    assert torch.equal(causal_mask(7).exp(), torch.ones(7, 7).tril())


def test_the_positional_encoding_is_vaswanis() -> None:
    torch.testing.assert_close(sinusoids(11, 6).double(), reference.sinusoids(11, 6), rtol=1e-5, atol=1e-6)
    # What it was chosen for: a shift is one rotation of every pair, wherever one stands.
    pairs = torch.view_as_complex(sinusoids(11, 6).view(11, 3, 2).double())
    turns = pairs[4:] / pairs[:-4]
    torch.testing.assert_close(turns, turns[:1].expand(7, 3), rtol=1e-5, atol=1e-5)
