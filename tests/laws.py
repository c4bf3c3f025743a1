"""What holds for the pair network whichever mixer stands in it: `LAWS`, each a check of the mixer of one kind."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_model import PairConfig, PairNetwork
from diptych_model.encoders import Residual
from diptych_model.mixers import MIXERS, mixer_from
from diptych_model.network import PairPart

SIZES: dict[str, Any] = {"pixels": 24, "encoder": Residual((5, 7), (1, 1)), "width": 32, "embedding": 13, "blocks": 2}


def network(kind: str, **changes: Any) -> PairNetwork:
    """A network in float64 whose every parameter has been moved, so that nothing hides behind a zero or a one."""
    settings = SIZES | {"mixer": MIXERS[kind](), "segment": "none"} | changes
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = PairNetwork(PairConfig(**settings)).eval().double()
        for parameter in made.parameters():
            parameter.data += torch.randn_like(parameter) * 0.1
    return made


def pictures(count: int, seed: int, size: int = 24) -> Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tokens(made: PairNetwork) -> list[Tensor]:
    return [made.encode(pictures(2, seed))[0].detach() for seed in (1, 2)]


def its_settings_survive_json_under_its_own_name(kind: str) -> None:
    mixer = MIXERS[kind]()
    assert mixer.kind == kind
    assert mixer_from(json.loads(json.dumps(asdict(mixer)))) == mixer  # pyright: ignore[reportArgumentType]


def a_score_is_the_pair_part_over_the_panel_part_in_any_batch_and_order(kind: str) -> None:
    a, b = pictures(3, 1), pictures(3, 2)
    for segment in ("none", "relative"):
        made = network(kind, segment=segment)
        score, (both, _) = made(a, b), made.encode(torch.cat([a, b]))
        torch.testing.assert_close(made.relate(both[:3], both[3:]), score)
        torch.testing.assert_close(made(b, a), score)
        torch.testing.assert_close(made(a[1:2], b[1:2]), score[1:2])


def each_panel_sees_the_other_in_every_block(kind: str) -> None:
    made = network(kind)
    x = torch.stack([one[:1] for one in tokens(made)], 1).flatten(0, 1).requires_grad_()
    assert isinstance(made.pair, PairPart)
    for block in made.pair.blocks:
        (gradient,) = torch.autograd.grad(block(x)[0].sum(), x)
        assert gradient[1].abs().max() > 1e-9


def every_parameter_of_the_trunk_learns(kind: str) -> None:
    made = network(kind, segment="added").train()
    made(pictures(3, 1), pictures(3, 2)).square().sum().backward()
    silent = [n for n, p in made.pair.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert not silent


def smaller_panels_and_an_open_seam_give_finite_scores(kind: str) -> None:
    assert torch.isfinite(network(kind)(pictures(2, 1, size=16), pictures(2, 2, size=16))).all()
    score = network(kind, seam="pixels", segment="added")(pictures(2, 1), pictures(2, 2))
    assert torch.isfinite(score).all()
    assert score.std() > 0


def the_attention_shown_is_the_one_that_scores_are_made_with(kind: str) -> None:
    """Shares of all attention, transposed where the panels are swapped; a mixer without such attention says so."""
    made, calls = network(kind, segment="relative").train(), []  # torch has no kernel for a whole layer in training

    def attend(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, *_: Any, **options: Any) -> Tensor:
        scores = q @ k.mT * (options.get("scale") or q.shape[-1] ** -0.5)
        calls.append((scores if attn_mask is None else scores + attn_mask).softmax(-1))
        return calls[-1] @ v

    tokens_a, tokens_b = tokens(made)
    if not made.has_attention:
        with pytest.raises(ValueError, match=f"the mixer '{kind}' has no attention from patch to patch"):
            made.attention(tokens_a, tokens_b)
        return
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        shown, turned = made.attention(tokens_a, tokens_b), made.attention(tokens_b, tokens_a)
        patch.setattr(F, "scaled_dot_product_attention", attend)
        made.relate(tokens_a, tokens_b)
    T = tokens_a[0, ..., 0].numel()
    if kind == "decoder":
        # The own panel's attention, then the other's, panels one after another in the batch.
        crossing = [call.mean(1).unflatten(0, (-1, 2)) for call in calls[1::2]]
        maps = [(call[:, 0] + call[:, 1].mT) / 2 for call in crossing]
    else:
        maps = [((call[:, :, :T, T:] + call[:, :, T:, :T].mT) / 2).mean(1) for call in calls]
    assert len(maps) == SIZES["blocks"]
    torch.testing.assert_close(shown, torch.stack(maps).mean(0))
    torch.testing.assert_close(turned, shown.mT)
    assert (shown - shown.mT).abs().max() > 1e-4
    assert shown.min() >= 0
    share = shown.sum((1, 2)) / T
    assert (share <= 1 + 1e-9).all()
    assert share.min() > 0.1


LAWS: list[Callable[[str], None]] = [
    its_settings_survive_json_under_its_own_name,
    a_score_is_the_pair_part_over_the_panel_part_in_any_batch_and_order,
    each_panel_sees_the_other_in_every_block,
    every_parameter_of_the_trunk_learns,
    smaller_panels_and_an_open_seam_give_finite_scores,
    the_attention_shown_is_the_one_that_scores_are_made_with,
]
