import pytest
import torch

from diptych_training.losses import choose_pairs, distillation_loss, embedding_loss, pair_loss

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


def test_pairs_that_are_neither_match_nor_rival_are_never_chosen() -> None:
    cosines = torch.zeros(5, 7)
    cosines[:, 6] = 9
    chosen = choose(cosines, negatives=5, easy=4)
    assert not (chosen == 6).any()
    assert RIVAL.gather(1, chosen[:, 1:]).all()


def test_the_pair_loss_falls_as_the_match_rises_above_its_rivals() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0], [3.0, -3.0, -3.0]])
    assert pair_loss(logits[1:]) < pair_loss(logits[:1]) / 10


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
