"""The pair network: the seam, the segments, the order of the panels."""

import dataclasses
from typing import Any

import pytest
import torch

from diptych_model import MSAC, Msac, PairConfig, PairNetwork, Residual, Scale
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


def literal(made: PairNetwork, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Section 6.1 as it is written: x and z with their segments, t = [x, z] in pixels, the network over t."""
    segments = made.panel.segments
    if segments.mode != "none":
        x_seg, z_seg = (seg.permute(2, 0, 1)[None] for seg in (segments.x_seg, segments.z_seg))
        if segments.mode == "added":
            x, z = x + x_seg, z + z_seg
        else:
            x, z = (torch.cat([p, seg.expand(len(p), -1, -1, -1)], 1) for p, seg in ((x, x_seg), (z, z_seg)))
    features = made.panel.encoder(torch.cat([x, z], -1))[0]
    tokens_a, tokens_b = (made.panel.tokens(part) + made.panel.position for part in features.chunk(2, 2))
    return made.pair(tokens_a, tokens_b)


LITERAL = {
    "added": {"segment": "added", "bias": "concatenated"},
    "concatenated": {"segment": "concatenated", "bias": "concatenated"},
    "none": {"segment": "none", "bias": "concatenated"},
    "relative": {"segment": "relative"},
}


@pytest.mark.parametrize("changes", LITERAL.values(), ids=LITERAL)
def test_the_literal_form_runs_everything_over_t_in_pixels_in_both_orders(changes: dict) -> None:
    made, a, b = network(seam="pixels", **changes), pictures(3, 1), pictures(3, 2)
    torch.testing.assert_close(made(a, b), (literal(made, a, b) + literal(made, b, a)) / 2)
    assert (literal(made, a, b) - literal(made, b, a)).abs().max() > 1e-6


@pytest.mark.parametrize("changes", LITERAL.values(), ids=LITERAL)
@pytest.mark.parametrize("count", [1, 3])
def test_the_literal_form_scores_both_orders_alike_to_the_last_bit(changes: dict, count: int) -> None:
    made = network(seam="pixels", questions=("copy", "thing"), parts=2, embedding=12, **changes).float()
    a, b = pictures(count, 1).float(), pictures(count, 2).float()
    with torch.no_grad():
        assert torch.equal(made(a, b), made(b, a))
        assert (made(a, b)[:, 0] <= made(a, b)[:, 1]).all()


@pytest.mark.parametrize("changes", LITERAL.values(), ids=LITERAL)
def test_the_tokens_of_the_literal_form_are_the_pixels(changes: dict) -> None:
    made, a, b = network(seam="pixels", **changes), pictures(2, 1), pictures(2, 2)
    (tokens_a, alone), (tokens_b, _) = made.encode(a), made.encode(b)
    assert tokens_a.shape[1:] == made.config.token_shape == (24, 24, 3)
    torch.testing.assert_close(made.relate(tokens_a, tokens_b), made(a, b))
    torch.testing.assert_close(alone.norm(dim=-1), torch.ones(2, dtype=torch.float64))
    eight_bits = (a * 255).round() / 255
    assert torch.equal(made.encode(eight_bits)[0].half().double(), (eight_bits * 255).round().permute(0, 2, 3, 1))


def test_every_weight_of_the_literal_form_learns_and_the_segments_at_every_pixel() -> None:
    made = network(seam="pixels", segment="concatenated", bias="concatenated").train()
    made(pictures(3, 1), pictures(3, 2)).square().sum().backward()
    silent = [
        name
        for name, parameter in made.named_parameters()
        if not name.startswith("panel.embedding") and (parameter.grad is None or not parameter.grad.any())
    ]
    assert not silent
    segments = made.panel.segments
    for seg in (segments.x_seg, segments.z_seg):
        assert seg.shape == (24, 24, segments.CONCATENATED)
        assert seg.grad is not None
        assert (seg.grad.abs().amax(-1) > 0).all()


SIZES = {"closed": VARIANTS, "pixels": {name: LITERAL[name] for name in ("added", "relative")}}


@pytest.mark.parametrize(
    ("seam", "changes"), [(seam, changes) for seam, forms in SIZES.items() for changes in forms.values()]
)
def test_panels_of_every_number_of_whole_tokens_are_scored(seam: str, changes: dict) -> None:
    options: dict[str, Any] = {"seam": seam} | changes
    made = network(**options)
    for size in (8, 24, 40):
        a, b = pictures(2, 1, size=size), pictures(2, 2, size=size)
        (tokens_a, _), (tokens_b, _) = made.encode(a), made.encode(b)
        assert torch.isfinite(made(a, b)).all()
        torch.testing.assert_close(made(a, b), made.relate(tokens_a, tokens_b))


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


@pytest.mark.usefixtures("unchecked")
def test_the_literal_form_relates_pixels_and_says_so() -> None:
    made = network(seam="pixels")
    tokens, _ = network().encode(pictures(1, 1))
    with pytest.raises(ValueError, match=r"tokens of a picture are its pixels .* got \(1, 3, 3, 11\)"):
        made.relate(tokens, tokens)
    with pytest.raises(ValueError, match=r"alike, got pictures \(1, 3, 24, 24\) and \(2, 3, 24, 24\)"):
        made(pictures(1, 1), pictures(2, 2))


@pytest.mark.parametrize("segment", ["added", "concatenated"])
def test_a_segment_that_names_the_panels_makes_the_order_matter(segment: str) -> None:
    made, a, b = network(segment=segment), pictures(3, 1), pictures(3, 2)
    assert (made(a, b) - made(b, a)).abs().min() > 1e-6
    assert isinstance(made.pair, PairPart)
    made(a, b).sum().backward()
    segments, ones = made.pair.segments, torch.ones(1, 3, 3, 11, dtype=torch.float64)
    for panel, seg in zip(segments(ones, ones), (segments.x_seg, segments.z_seg), strict=True):
        assert seg.grad is not None
        assert seg.grad.any()
        torch.testing.assert_close(panel[0], ones[0] + seg if segment == "added" else torch.cat([ones[0], seg], -1))


@pytest.mark.parametrize(
    ("shape", "message"),
    [((1, 3, 20, 20), "S = 24 or another multiple of 8"), ((1, 3, 0, 0), "got"), ((1, 1, 24, 24), "got")],
)
@pytest.mark.usefixtures("unchecked")
def test_panels_of_another_shape_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network().encode(torch.zeros(shape, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"alike, got \(1, 3, 3, 11\) and \(2, 3, 3, 11\)"):
        network().relate(torch.zeros(1, 3, 3, 11), torch.zeros(2, 3, 3, 11))
