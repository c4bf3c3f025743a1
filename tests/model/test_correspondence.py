from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F

from diptych_model import PairConfig, PairNetwork, Residual
from diptych_model.correspondence import Correspondence, laid_out
from diptych_model.network import PairPart


def network(**changes: Any) -> PairNetwork:
    """A small one in float64 that answers two questions, with nothing left at zero."""
    settings: dict[str, Any] = {
        "pixels": 24,
        "encoder": Residual((5,), (1,)),
        "width": 7,
        "embedding": 14,
        "blocks": 2,
        "questions": ("copy", "thing"),
        "correspondence": True,
        "channels": 16,
        "merge": 2,
        "parts": 2,
    }
    torch.manual_seed(3)
    made = PairNetwork(PairConfig(**(settings | changes))).eval().double()
    for parameter in made.parameters():
        parameter.data += torch.randn_like(parameter) * 0.1
    return made


def pictures(count: int, seed: int, size: int = 24) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(scope="module")
def made() -> PairNetwork:
    return network()


def test_a_copy_always_shows_the_same_thing_whichever_panel_is_first(made: PairNetwork) -> None:
    a, b = pictures(5, 1), pictures(5, 2)
    torch.testing.assert_close(made(a, b), made(b, a))
    copy, thing = made(a, b).unbind(1)
    assert (thing > copy).all()


def test_tokens_carry_the_embedding_to_where_pairs_are_related(made: PairNetwork) -> None:
    tokens, embeddings = made.encode(pictures(3, 1))
    assert tokens.shape[1:] == made.config.token_shape == (6, 6, 7 + 1)
    torch.testing.assert_close(tokens[..., 7:].flatten(1)[:, :14], embeddings)
    assert (tokens[..., 7:].flatten(1)[:, 14:] == 0).all()
    assert laid_out(tokens[..., :7], embeddings.repeat(1, 4)).shape == (3, 6, 6, 7 + 2)


def test_what_is_known_are_the_cosines_and_the_mean_best_match(made: PairNetwork) -> None:
    with torch.no_grad():
        (tokens_a, e_a), (tokens_b, e_b) = made.encode(pictures(3, 1)), made.encode(pictures(3, 2))
    correspondence = cast(Correspondence, made.pair.correspondence)
    known = correspondence(tokens_a, tokens_b)[2]
    for row in range(3):
        a, b = (F.normalize(t[row, ..., :7].reshape(36, 7), dim=1) for t in (tokens_a, tokens_b))
        best_a = sum(max(float(x @ y) for y in b) for x in a) / 36
        best_b = sum(max(float(x @ y) for x in a) for y in b) / 36
        torch.testing.assert_close(known[row, 2], torch.tensor((best_a + best_b) / 2, dtype=torch.float64))
        for part, of in enumerate((slice(0, 7), slice(7, 14))):
            torch.testing.assert_close(known[row, part], F.cosine_similarity(e_a[row, of], e_b[row, of], dim=0))


def test_with_a_bank_it_is_known_how_uniform_and_how_typical_both_pictures_are() -> None:
    made = network(bank=9)
    embedding = made.panel.embedding
    with torch.no_grad():
        embedding.bank.copy_(made.encode(pictures(9, 5))[1])
        (tokens_a, e_a), (tokens_b, e_b) = made.encode(pictures(3, 1)), made.encode(pictures(3, 2))
    known = cast(Correspondence, made.pair.correspondence)(tokens_a, tokens_b)[2]
    assert known.shape == (3, 2 + 2 + 2)
    for row in range(3):
        units = [F.normalize(t[row, ..., :7].reshape(36, 7), dim=1) for t in (tokens_a, tokens_b)]
        uniform = sum(float((unit @ unit.T).mean()) for unit in units)
        torch.testing.assert_close(known[row, 3], torch.tensor(uniform, dtype=torch.float64))
    torch.testing.assert_close(known[:, 4:], embedding.typicality(e_a) + embedding.typicality(e_b))
    torch.testing.assert_close(made.relate(tokens_a, tokens_b), made.relate(tokens_b, tokens_a))


def test_a_patch_is_found_where_it_lies_and_returns_to_itself() -> None:
    config = PairConfig(
        pixels=64, encoder=Residual((5,), (1,)), width=64, embedding=8, correspondence=True, channels=3, merge=2
    )
    correspondence = Correspondence(config).double()
    correspondence.sharpness.data.fill_(5)
    torch.manual_seed(0)
    content = torch.linalg.qr(torch.randn(256, 256, dtype=torch.float64)).Q[:, :64].reshape(1, 16, 16, 64)
    tokens = laid_out(F.normalize(content, dim=-1), torch.ones(1, 8, dtype=torch.float64))
    mirrored = laid_out(F.normalize(content.flip(2), dim=-1), torch.ones(1, 8, dtype=torch.float64))
    seen = {}
    correspondence.merge.register_forward_pre_hook(lambda module, given: seen.update(x=given[0]))
    correspondence(tokens, mirrored)
    evidence = seen["x"].unflatten(-1, (4, -1))[..., 64:]  # (1, 8, 8, 4, 6)
    best, x, y, back_x, back_y, distance = evidence.unbind(-1)
    line = (torch.arange(8, dtype=torch.float64) + 0.5) * (2 / 8) - 1
    torch.testing.assert_close(best, torch.ones_like(best))
    torch.testing.assert_close(x.mean(-1)[0], -line.expand(8, 8), atol=1e-6, rtol=0)
    torch.testing.assert_close(y.mean(-1)[0], line[:, None].expand(8, 8), atol=1e-6, rtol=0)
    assert max(part.abs().max() for part in (back_x, back_y, distance)) < 1e-6


def test_the_attention_shown_turns_with_the_pair_and_is_a_share(made: PairNetwork) -> None:
    tokens_a, tokens_b = made.encode(pictures(2, 1))[0], made.encode(pictures(2, 2))[0]
    shown, turned = made.attention(tokens_a, tokens_b), made.attention(tokens_b, tokens_a)
    torch.testing.assert_close(shown, turned.transpose(1, 2))
    share = shown.sum((1, 2)) / 36
    assert ((share >= 0) & (share <= 1)).all()


LITERAL: dict[str, Any] = {"seam": "pixels", "segment": "added", "bias": "concatenated", "bank": 9}


def literal(made: PairNetwork, x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The summands of the logits of t = [x, z] in pixels: each half of t has its tokens and an embedding."""
    segments, embedding = made.panel.segments, made.panel.embedding
    t = torch.cat([x + segments.x_seg.permute(2, 0, 1), z + segments.z_seg.permute(2, 0, 1)], -1)
    sides = []
    for half in made.panel.encoder(t)[0].chunk(2, 2):
        described = embedding(torch.cat([half.mean((1, 2)), half.amax((1, 2))], -1))
        more = torch.cat([described, embedding.typicality(described)], -1)
        sides.append(laid_out(half @ made.panel.tokens.weight.T, more))
    return cast(PairPart, made.pair).logit_summands(*sides)


def test_in_the_literal_form_both_orders_of_t_begin_with_what_their_halves_have_in_common() -> None:
    made, a, b = network(**LITERAL), pictures(3, 1), pictures(3, 2)
    pair = cast(PairPart, made.pair)
    made.panel.embedding.bank.copy_(made.encode(pictures(9, 5))[1].detach())
    orders = zip(literal(made, a, b), literal(made, b, a), strict=True)
    prior, added, known = ((one + other) / 2 for one, other in orders)
    torch.testing.assert_close(made(a, b), pair.question_logits(prior + added))
    one_prior, one_added, _ = literal(made, a, b)
    assert (made(a, b) - pair.question_logits(one_prior + one_added)).abs().max() > 1e-6
    tokens_a, tokens_b = made.encode(a)[0], made.encode(b)[0]
    assert tokens_a.shape[1:] == made.config.token_shape == (24, 24, 3)
    for found, expected in zip(made.logit_summands(tokens_a, tokens_b), (prior, added, known), strict=True):
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(made.attention(tokens_a, tokens_b), made.attention(tokens_b, tokens_a).transpose(1, 2))
