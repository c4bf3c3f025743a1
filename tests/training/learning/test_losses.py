import pytest
import torch
import torch.nn.functional as F

from diptych_training.data.augment import make_identity_places
from diptych_training.learning.losses import (
    choose_pairs,
    distillation_loss,
    embedding_loss,
    entropy_loss,
    level_loss,
    link_loss,
    pair_loss,
    split_questions,
)

MATCH = torch.eye(5, 7, dtype=torch.bool)
RIVAL = ~MATCH
RIVAL[:, 6] = False


def choose(cosines: torch.Tensor, **options: int) -> torch.Tensor:
    return choose_pairs(cosines, MATCH, RIVAL, generator=torch.Generator().manual_seed(0), **options)


def test_a_query_gets_its_match_first_and_then_its_nearest_rivals() -> None:
    cosines = torch.rand(5, 7, generator=torch.Generator().manual_seed(1))
    chosen = choose(cosines, negatives=3, easy=0)
    assert chosen[:, 0].tolist() == [0, 1, 2, 3, 4]
    for query, row in enumerate(chosen):
        rivals = [r for r in cosines[query].argsort(descending=True).tolist() if RIVAL[query, r]]
        assert row[1:].tolist() == rivals[:3]
    cosines[:, 6] = 9  # neither a match nor a rival
    assert RIVAL.gather(1, choose(cosines, negatives=5, easy=4)[:, 1:]).all()
    with pytest.raises(ValueError, match="surely does not match it"):
        choose_pairs(cosines, MATCH, RIVAL & (cosines > 9), negatives=2, easy=0, generator=torch.Generator())


def test_the_embedding_loss_ignores_pairs_that_are_neither() -> None:
    cosines = torch.rand(5, 7, generator=torch.Generator().manual_seed(2)).requires_grad_()
    embedding_loss(cosines, MATCH, RIVAL, 0.1).backward()
    assert cosines.grad is not None
    assert (cosines.grad[:, 6] == 0).all()
    assert (cosines.grad[MATCH] < 0).all()


def test_distillation_is_zero_for_the_teachers_own_ranking_and_does_not_teach_the_teacher() -> None:
    logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(3)).requires_grad_()
    cosines = (logits.detach() * 0.1).requires_grad_()
    assert distillation_loss(cosines, logits, 0.1).item() == pytest.approx(0, abs=1e-6)
    distillation_loss(cosines * 0.5, logits, 0.1).backward()
    assert logits.grad is None
    assert cosines.grad is not None
    assert cosines.grad.abs().max() > 0


def test_the_link_loss_follows_what_was_moved() -> None:
    tokens, places = torch.randn(2, 4, 4, 8, generator=torch.Generator().manual_seed(3)), make_identity_places(2, 16)
    mirrored, mirrored_places = tokens.flip(2), places.flip(2)
    assert link_loss(mirrored, tokens, mirrored_places, places) < 0.1 * link_loss(mirrored, tokens, places, places)


@pytest.mark.parametrize(("width", "height"), [(0.6, 1.0), (1.0, 0.6), (0.5, 0.5)])
def test_exactly_the_tokens_that_a_crop_shows_are_known(width: float, height: float) -> None:
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randn(2, 4, 4, 8, generator=generator).requires_grad_()
    places, size = make_identity_places(2, 16), torch.tensor([width, height])
    link_loss(tokens, tokens.detach(), places, places * size).backward()
    assert tokens.grad is not None
    learnt = tokens.grad.abs().amax((0, 3)) > 0
    line = torch.tensor([-0.75, -0.25, 0.25, 0.75]).abs()
    expected = (line[:, None] <= height) & (line[None, :] <= width)
    assert torch.equal(learnt, expected)


def test_a_query_without_a_match_has_another_rival_in_its_place() -> None:
    match = MATCH.clone()
    match[2] = False
    cosines = torch.rand(5, 7, generator=torch.Generator().manual_seed(1))
    chosen = choose_pairs(cosines, match, RIVAL, negatives=2, easy=1, generator=torch.Generator().manual_seed(0))
    assert RIVAL[2].gather(0, chosen[2]).all()


def test_without_a_match_every_score_is_to_be_low_and_no_order_is_asked() -> None:
    logits = torch.tensor([[3.0, 1.0, -2.0]])
    unmatched = pair_loss(logits, 1.0, torch.tensor([False]))
    expected = F.softplus(logits[:, 0]).mean() + F.softplus(logits[:, 1:]).mean()
    torch.testing.assert_close(unmatched, expected)
    torch.testing.assert_close(pair_loss(logits, 1.0, torch.tensor([True])), pair_loss(logits, 1.0))
    assert pair_loss(torch.tensor([[3.0, -3.0, -3.0]])) < pair_loss(torch.zeros(1, 3)) / 10


def test_the_same_thing_is_no_copy_and_every_copy_the_same_thing() -> None:
    logits = torch.arange(4.0).reshape(1, 2, 2)
    yes, no = torch.tensor([True]), torch.tensor([False])
    for copies, matched_as_copy in ((yes, yes), (no, no)):
        (copy, as_copy), (thing, as_thing) = split_questions(logits, yes, copies)
        assert as_copy.equal(matched_as_copy)
        assert as_thing.equal(yes)
        assert copy.tolist() == [[0.0, 2.0]]
        assert thing.tolist() == [[1.0, 3.0]]
    ((only, as_match),) = split_questions(logits[..., 0], yes, no)
    assert only.equal(logits[..., 0])
    assert as_match.equal(yes)


def test_the_level_is_a_softmax_over_the_pairs_of_the_step() -> None:
    rng = torch.Generator().manual_seed(3)
    before = torch.randn(5, 4, generator=rng, dtype=torch.float64)
    having = torch.tensor([True, True, False, True, True])
    logits = before.clone().requires_grad_()
    # Held against itself: what the gradient of the whole softmax would be, but for pairs that meet themselves.
    level_loss(logits, having, before, having).backward()
    strangers = torch.cat([before[:, 1:].flatten(), before[~having, 0]])
    others = strangers.logsumexp(0)
    matches = -torch.sigmoid(others - before[having, 0]) / len(before)
    gradient = logits.grad
    assert gradient is not None
    torch.testing.assert_close(gradient[having, 0], matches)
    wanted = torch.sigmoid(before[:, 1:, None] - torch.logaddexp(before[having, 0], others)).mean(-1)
    torch.testing.assert_close(gradient[:, 1:], wanted)
    assert level_loss(logits, having, before, torch.zeros(5, dtype=torch.bool)) == 0


def test_the_entropy_is_of_those_that_show_other_things() -> None:
    near = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]]), dim=1)
    apart = ~torch.eye(3, dtype=torch.bool)
    same = apart.clone()
    same[0, 1] = same[1, 0] = False
    assert entropy_loss(near, same) < entropy_loss(near, apart)


def test_a_token_that_shows_the_photo_in_part_or_what_the_other_does_not_is_linked_to_none() -> None:
    places = make_identity_places(1, 8).clone()
    torn = places.clone()
    torn[:, :, 1::2] = 3.0  # every token of two pixels is half something else
    tokens = torch.rand(1, 4, 4, 5, generator=torch.Generator().manual_seed(0))
    assert link_loss(tokens, tokens, torn, places) == 0
    assert link_loss(tokens, tokens, places, torn) == 0
    assert link_loss(tokens, tokens, places * 0.2 + 5, places) == 0
    assert link_loss(tokens, tokens, places, places) > 0
