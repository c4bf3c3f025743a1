"""The pair network: the seam, the segments, the order of the panels."""

import dataclasses

import pytest
import torch

from diptych_model import MSAC, Msac, PairConfig, PairNetwork, RelativeBias, Residual, Scale
from diptych_model.network import PairPart

SCALES = (Scale(1, 1, heads=2, d_a=3, d_o=3), Scale(3, 3, heads=2, d_a=3, d_o=3, separable=True))
CONFIG = PairConfig(pixels=24, encoder=Residual((5, 7), (1, 1)), width=11, embedding=13, blocks=2, mixer=Msac(SCALES))
VARIANTS = {
    "relative": {},
    "added": {"segment": "added"},
    "concatenated": {"segment": "concatenated"},
    "columns of t": {"segment": "added", "bias": "concatenated"},
    "windows of the trunk over the seam": {"seam": "tokens"},
    "no segment, no bias": {"segment": "none", "bias": "none"},
}


def network(seed: int = 0, **changes: object) -> PairNetwork:
    torch.manual_seed(seed)
    made = PairNetwork(dataclasses.replace(CONFIG, **changes)).eval().double()
    for name, parameter in made.named_parameters():
        if parameter.dim() == 1 or name.endswith(("table", "seg", "position")):
            parameter.data += torch.randn_like(parameter) * 0.3
    return made


def pictures(count: int, seed: int, size: int = 24) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_the_panel_and_pair_parts_together_are_the_network(changes: dict) -> None:
    made, a, b = network(**changes), pictures(3, 1), pictures(3, 2)
    both, _ = made.encode(torch.cat([a, b]))
    torch.testing.assert_close(made(a, b), made.relate(both[:3], both[3:]))


def test_the_literal_form_runs_everything_over_t_in_pixels() -> None:
    made, a, b = network(seam="pixels", segment="added", bias="concatenated"), pictures(3, 1), pictures(3, 2)
    features = made.panel.encoder(torch.cat([a, b], -1))[0]
    tokens_a, tokens_b = (made.panel.tokens(part) + made.panel.position for part in features.chunk(2, 2))
    torch.testing.assert_close(made(a, b), made.pair(tokens_a, tokens_b))


def test_the_trunk_over_two_panels_is_the_trunk_over_the_one_picture_t() -> None:
    made = network(seam="tokens", segment="added", bias="concatenated")
    tokens_a, tokens_b = (made.encode(pictures(3, seed))[0] for seed in (1, 2))
    pair = made.pair
    assert isinstance(pair, PairPart)
    t = torch.cat(pair.segments(tokens_a, tokens_b), 2)
    for block in pair.blocks:
        literal = MSAC(11, 3, 6, SCALES, d_phi=11).double()
        literal.load_state_dict(block.mixer.state_dict())
        t = t + literal(block.norm(t))
        t = t + block.feed(t)
    t = pair.norm(t).flatten(1, 2)
    expected = pair.head(torch.cat([t.mean(1), t.amax(1)], -1)).squeeze(-1)
    torch.testing.assert_close(made(pictures(3, 1), pictures(3, 2)), expected)


def test_the_literal_form_has_no_tokens_of_one_picture_to_relate() -> None:
    made = network(seam="pixels")
    tokens, _ = made.encode(pictures(1, 1))
    with pytest.raises(ValueError, match=r"score the pictures themselves, network\(pictures_a, pictures_b\)"):
        made.relate(tokens, tokens)


@pytest.mark.parametrize("segment", ["relative", "none"])
def test_without_a_named_first_panel_the_order_leaves_the_score(segment: str) -> None:
    made, a, b = network(segment=segment), pictures(3, 1), pictures(3, 2)
    torch.testing.assert_close(made(a, b), made(b, a))


@pytest.mark.parametrize("segment", ["added", "concatenated"])
def test_a_segment_that_names_the_panels_makes_the_order_matter(segment: str) -> None:
    made, a, b = network(segment=segment), pictures(3, 1), pictures(3, 2)
    assert (made(a, b) - made(b, a)).abs().min() > 1e-6


def test_the_relative_segment_tells_the_same_panel_from_the_other() -> None:
    made, a, b = network(), pictures(3, 1), pictures(3, 2)
    score = made(a, b)
    for module in made.modules():
        if isinstance(module, RelativeBias):
            module.table.data[1] = module.table.data[0]
    assert (made(a, b) - score).abs().max() > 1e-6


def test_each_panel_attends_the_other() -> None:
    made, a, b = network(), pictures(1, 1), pictures(1, 2)
    tokens_a, tokens_b = (made.encode(x)[0].detach().requires_grad_() for x in (a, b))
    gradients = torch.autograd.grad(made.relate(tokens_a, tokens_b).sum(), [tokens_a, tokens_b])
    assert all((gradient.abs().amax(-1) > 0).all() for gradient in gradients)


def test_a_score_does_not_depend_on_its_mates_in_the_batch() -> None:
    made, a, b = network(), pictures(5, 1), pictures(5, 2)
    torch.testing.assert_close(made(a, b)[2:3], made(a[2:3], b[2:3]))


def test_embeddings_have_unit_length_and_tokens_the_grid_of_the_configuration() -> None:
    made = network()
    tokens, embeddings = made.encode(pictures(2, 1))
    assert tokens.shape == (2, 3, 3, 11)
    torch.testing.assert_close(embeddings.norm(dim=-1), torch.ones(2, dtype=torch.float64))


def test_a_smaller_panel_of_whole_tokens_is_scored_too() -> None:
    assert network()(pictures(2, 1, size=16), pictures(2, 2, size=16)).shape == (2,)


@pytest.mark.parametrize(
    ("shape", "message"),
    [((1, 3, 20, 20), "S = 24 or a smaller multiple of 8"), ((1, 3, 32, 32), "got"), ((1, 1, 24, 24), "got")],
)
@pytest.mark.usefixtures("unchecked")
def test_panels_of_another_shape_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network().encode(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.usefixtures("unchecked")
def test_panels_that_differ_in_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"alike, got \(1, 3, 3, 11\) and \(2, 3, 3, 11\)"):
        network().relate(torch.zeros(1, 3, 3, 11), torch.zeros(2, 3, 3, 11))
