"""What holds for the pair network whichever mixer stands in it."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_model import PairConfig, PairNetwork
from diptych_model.encoders import Residual
from diptych_model.mixers import MIXERS
from diptych_model.network import PairPart

SIZES: dict[str, Any] = {
    "pixels": 24,
    "encoder": Residual((5, 7), (1, 1)),
    "width": 32,
    "embedding": 13,
    "blocks": 2,
}


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


@pytest.fixture(scope="module", params=MIXERS)
def made(request: pytest.FixtureRequest) -> PairNetwork:
    return network(request.param)


def test_the_panel_and_pair_parts_together_are_the_network(made: PairNetwork) -> None:
    a, b = pictures(3, 1), pictures(3, 2)
    both, _ = made.encode(torch.cat([a, b]))
    torch.testing.assert_close(made(a, b), made.relate(both[:3], both[3:]))


def test_swapping_the_panels_leaves_the_score(made: PairNetwork) -> None:
    a, b = pictures(3, 1), pictures(3, 2)
    torch.testing.assert_close(made(a, b), made(b, a))


@pytest.mark.parametrize("kind", MIXERS)
def test_swapping_the_panels_of_a_relative_segment_leaves_the_score(kind: str) -> None:
    made = network(kind, segment="relative")
    a, b = pictures(3, 1), pictures(3, 2)
    torch.testing.assert_close(made(a, b), made(b, a))


def test_a_score_does_not_depend_on_its_mates_in_the_batch(made: PairNetwork) -> None:
    a, b = pictures(5, 1), pictures(5, 2)
    torch.testing.assert_close(made(a, b)[2:3], made(a[2:3], b[2:3]))


def test_the_trunk_of_each_panel_sees_the_other(made: PairNetwork) -> None:
    tokens_a, tokens_b = (made.encode(pictures(1, seed))[0].detach() for seed in (1, 2))
    x = torch.stack([tokens_a, tokens_b], 1).flatten(0, 1).requires_grad_()
    assert isinstance(made.pair, PairPart)
    for block in made.pair.blocks:
        x_after = block(x)
        (gradient,) = torch.autograd.grad(x_after[0].sum(), x, retain_graph=True)
        assert gradient[1].abs().max() > 1e-9


def test_a_smaller_panel_of_whole_tokens_is_scored_too(made: PairNetwork) -> None:
    assert torch.isfinite(made(pictures(2, 1, size=16), pictures(2, 2, size=16))).all()


@pytest.mark.parametrize("kind", MIXERS)
def test_every_parameter_of_the_trunk_learns(kind: str) -> None:
    made = network(kind, segment="added").train()
    made(pictures(3, 1), pictures(3, 2)).square().sum().backward()
    silent = [n for n, p in made.pair.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert not silent


@pytest.mark.parametrize("kind", MIXERS)
def test_with_the_seam_open_in_pixels_scores_are_finite_and_differ(kind: str) -> None:
    made = network(kind, seam="pixels", segment="added")
    score = made(pictures(2, 1), pictures(2, 2))
    assert torch.isfinite(score).all()
    assert score.std() > 0


ATTENTIVE = [kind for kind in MIXERS if network(kind).has_attention]


def tokens(made: PairNetwork, count: int = 2) -> tuple[Tensor, Tensor]:
    tokens_a, tokens_b = (made.encode(pictures(count, seed))[0].detach() for seed in (1, 2))
    return tokens_a, tokens_b


def test_the_mixers_that_attend_from_patch_to_patch_are_these() -> None:
    assert sorted(ATTENTIVE) == ["attention_augmented", "decoder", "msac", "non_local", "transformer"]


@pytest.mark.parametrize("kind", sorted(MIXERS.keys() - set(ATTENTIVE)))
def test_a_mixer_without_such_attention_says_so(kind: str) -> None:
    made = network(kind)
    with pytest.raises(ValueError, match=f"the mixer '{kind}' has no attention from patch to patch across the seam"):
        made.attention(*tokens(made))


@pytest.mark.parametrize("relation", ["late", "siamese"])
def test_a_relation_without_a_trunk_has_no_attention_to_show(relation: str) -> None:
    made = network("msac", relation=relation)
    assert not made.has_attention
    with pytest.raises(ValueError, match=f"the relation '{relation}' has no attention across the seam to show"):
        made.attention(*tokens(made))


@pytest.mark.parametrize("segment", ["none", "relative"])
@pytest.mark.parametrize("kind", ATTENTIVE)
def test_the_attention_shown_is_the_one_the_scores_are_made_with(
    kind: str, segment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, calls = network(kind, segment=segment).train(), []  # in training mode torch has no kernel for the whole layer

    def attend(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, *_: Any, **options: Any) -> Tensor:
        scores = q @ k.mT * (options.get("scale") or q.shape[-1] ** -0.5)
        calls.append((scores if attn_mask is None else scores + attn_mask).softmax(-1))
        return calls[-1] @ v

    tokens_a, tokens_b = tokens(made)
    with torch.no_grad():
        shown = made.attention(tokens_a, tokens_b)
        monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
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
    assert shown.std() > 1e-4


@pytest.mark.parametrize("kind", ATTENTIVE)
def test_swapping_the_panels_transposes_the_attention_across_the_seam(kind: str) -> None:
    made = network(kind, segment="relative")
    tokens_a, tokens_b = tokens(made)
    seen = made.attention(tokens_a, tokens_b)
    torch.testing.assert_close(made.attention(tokens_b, tokens_a), seen.mT)
    assert (seen - seen.mT).abs().max() > 1e-4


@pytest.mark.parametrize("kind", ATTENTIVE)
def test_the_attention_across_the_seam_is_a_share_of_all_attention(kind: str) -> None:
    made = network(kind)
    seen = made.attention(*tokens(made))
    share = seen.sum((1, 2)) / seen.shape[1]
    assert seen.shape == (2, 9, 9)
    assert seen.min() >= 0
    if kind == "decoder":  # whose cross-attention has a softmax of its own
        torch.testing.assert_close(share, torch.ones_like(share))
    else:
        assert share.min() > 0.1
        assert share.max() < 0.9
