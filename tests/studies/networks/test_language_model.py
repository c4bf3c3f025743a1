"""The language model's laws: what one scale alone is, who sees whom, and what does not fit."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from diptych_model import Scale
from diptych_studies.mixers.transformer import causal_mask
from diptych_studies.networks.language_model import (
    LanguageConfig,
    LanguageModel,
    build_window_scales,
    load_language,
    parameters_of,
    save_language,
    with_parameters,
)

SCALES = {
    "1": build_window_scales((1,), heads=2, d_a=3),
    "1, 2": build_window_scales((1, 2), heads=2, d_a=3),
    "1, 2, 3": build_window_scales((1, 2, 3), heads=3, d_a=2),
    "separable": (Scale(1, 3, 2, 3, 2, separable=True), Scale(1, 2, 1, 3, 5, separable=True)),
    "dilated, in a cascade, with a branch": (Scale(1, 2, 2, 3, 2, dilation=2, cascade=2, residual_convolution=True),),
}


def model_of(scales: tuple[Scale, ...], *, objective: str = "causal", seed: int = 0) -> LanguageModel:
    """Random weights everywhere, in float64: what starts at zero or one would hide a mistake."""
    model = LanguageModel(
        LanguageConfig(context=11, width=10, blocks=2, scales=scales, expansion=1.3, objective=objective)
    )
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data = parameter.data.double() + torch.randn(parameter.shape, generator=generator).double() * 0.3
    return model.double()


def bytes_of(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("objective", ["causal", "masked"])
@pytest.mark.parametrize(
    "scales", [build_window_scales((1,), heads=5, d_a=2), (Scale(1, 1, 5, 2, 2),)], ids=["a head each", "heads joined"]
)
def test_the_scale_of_one_alone_is_multi_head_self_attention(scales: tuple[Scale, ...], objective: str) -> None:
    msac = model_of(scales, objective=objective).blocks[0].msac
    for sac in msac.sacs:
        assert sac.bias is not None
        sac.bias.table.data.zero_()
    oracle = torch.nn.MultiheadAttention(10, 5, bias=False, batch_first=True, dtype=torch.float64)
    filters = [torch.cat([getattr(sac, name) for sac in msac.sacs]) for name in ("H_Q", "H_K", "H_V")]
    oracle.in_proj_weight.data = torch.cat(filters).view(30, 10).detach()
    joined = torch.block_diag(*(sac.H_Y.view(2, -1) for sac in msac.sacs))
    oracle.out_proj.weight.data = (msac.H_phi.view(10, -1) @ joined).detach()
    x = torch.randn(3, 7, 10, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mask = causal_mask(7).double() if objective == "causal" else None
    torch.testing.assert_close(msac(x[:, None])[:, 0], oracle(x, x, x, attn_mask=mask, need_weights=False)[0])


@pytest.mark.parametrize(
    ("objective", "windows"), [("causal", [[7], [6, 7], [5, 6, 7]]), ("masked", [[7], [7, 8], [6, 7, 8]])]
)
def test_the_heads_take_words_and_pairs_and_triplets_of_words(objective: str, windows: list[list[int]]) -> None:
    msac = model_of(SCALES["1, 2, 3"], objective=objective).blocks[0].msac
    x = torch.randn(1, 1, 11, 10, dtype=torch.float64, requires_grad=True)
    taken = [torch.autograd.grad(sac.project_packed(x)[0, 0, 7].sum(), x)[0] for sac in msac.sacs]
    assert [seen[0, 0].any(-1).nonzero().flatten().tolist() for seen in taken] == windows


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_a_byte_changes_no_earlier_logit_of_a_causal_model_and_every_logit_of_a_masked_one(
    name: str, objective: str
) -> None:
    model, tokens = model_of(SCALES[name], objective=objective), bytes_of(1, 11, seed=3)
    before = model(tokens)
    for place in (0, 4, 10):
        moved = tokens.clone()
        moved[0, place] = (moved[0, place] + 1) % 256
        changed = (model(moved) != before).any(-1)[0].tolist()
        seen_from = place if objective == "causal" else 0
        assert changed == [i >= seen_from for i in range(11)]


@pytest.mark.parametrize("name", SCALES)
def test_a_sentence_does_not_depend_on_its_mates_nor_on_the_room_left_in_the_context(name: str) -> None:
    model, tokens = model_of(SCALES[name]), bytes_of(3, 11, seed=5)
    logits = model(tokens)
    assert logits.shape == (3, 11, 256)
    torch.testing.assert_close(model(tokens[1:2]), logits[1:2])
    torch.testing.assert_close(model(tokens[:, :5]), logits[:, :5])


def test_windows_share_the_heads_equally_and_parameters_are_made_equal_by_the_feed_forward_part() -> None:
    base = LanguageConfig(scales=build_window_scales((1,), heads=6, d_a=16), expansion=4.0)
    for widths in ((1, 2), (1, 2, 3), (2, 3)):
        scales = build_window_scales(widths, heads=6, d_a=16)
        assert sorted(scale.m for scale in scales) == sorted(widths * (6 // len(widths)))
        other = with_parameters(replace(base, scales=scales), parameters_of(base))
        assert other.hidden_width < base.hidden_width
        assert abs(parameters_of(other) / parameters_of(base) - 1) < 0.01
        assert parameters_of(other) == sum(p.numel() for p in LanguageModel(other).parameters())


def test_a_configuration_and_a_saved_model_come_back_as_they_were(tmp_path: Path) -> None:
    model = model_of(SCALES["separable"]).float().eval()
    assert LanguageConfig.from_dict(json.loads(json.dumps(model.config.to_dict()))) == model.config
    save_language(model, tmp_path / "model", {"note": "random"})
    loaded, metadata = load_language(tmp_path / "model")
    assert (loaded.config, metadata, loaded.training) == (model.config, {"note": "random"}, False)
    assert torch.equal(loaded(bytes_of(2, 7)), model(bytes_of(2, 7)))
