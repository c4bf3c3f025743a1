"""Questions about pictures: relevance by its formula, words that fill up, a blind network, ten learnt by heart."""

import pytest
import torch
from drawing import assert_equal_with_gradients, draw, drawn
from torch import Tensor

from diptych_studies.networks.questions import QuestionConfig, QuestionNetwork, RegionAttention, question_loss

TINY = {"words": 11, "answers": 5, "longest": 7, "pixels": 12, "patch": 4, "width": 8, "blocks": 2, "heads": 2}


def tiny(relevance: str) -> QuestionNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return QuestionNetwork(QuestionConfig(relevance, **TINY))


def examples(count: int) -> tuple[Tensor, Tensor, Tensor]:
    questions = torch.randint(1, 11, (count, 7), generator=torch.Generator().manual_seed(1))
    questions[::2, 5:] = 0
    return draw(count, 3, 12, 12, seed=2).float(), questions, torch.arange(count) % 5


def relevance_by_loops(made: RegionAttention, x: Tensor, regions: Tensor, additive: bool) -> Tensor:
    """alpha and v' as the text has them, word by word and head by head."""
    d, width = x.shape[-1], x.shape[-1] // made.heads
    found = []
    for word in x:
        q, f, g = made.W_q(word), made.W_f(regions), made.W_g(regions)
        parts = []
        for head in range(made.heads):
            own = slice(head * width, (head + 1) * width)
            if additive:
                assert made.w is not None
                scores = torch.stack([made.w[head] @ torch.tanh(q[own] + region[own]) for region in f])
            else:
                scores = torch.stack([q[own] @ region[own] / width**0.5 for region in f])
            alpha = scores.exp() / scores.exp().sum()
            parts.append(sum(weight * region[own] for weight, region in zip(alpha, g, strict=True)))
        assert len(parts) * width == d
        found.append(made.out(torch.cat(parts)))
    return torch.stack(found)


@pytest.mark.parametrize("relevance", ["dot", "additive"])
def test_relevance_and_all_its_gradients_are_the_formula(relevance: str) -> None:
    made = drawn(RegionAttention(6, 5, 2, relevance), seed=1)
    x, regions = draw(3, 6, seed=2).requires_grad_(), draw(7, 5, seed=3).requires_grad_()
    computed, alpha = made(x[None], regions[None])
    torch.testing.assert_close(alpha.sum(-1), torch.ones_like(alpha[..., 0]))
    expected = relevance_by_loops(made, x, regions, relevance == "additive")
    # The bias of f moves all dot products of a word alike, which the softmax does not see.
    unseen = {"W_f.bias"} if relevance == "dot" else set()
    wanted = [x, regions, *(p for name, p in made.named_parameters() if name not in unseen)]
    assert_equal_with_gradients(computed[0], expected, wanted)


@pytest.mark.parametrize("relevance", ["dot", "additive", "blind"])
def test_filling_a_question_up_changes_nothing(relevance: str) -> None:
    network = tiny(relevance).eval()
    pictures, questions, _ = examples(4)
    short = questions[::2, :5]
    torch.testing.assert_close(network(pictures[::2], questions[::2]), network(pictures[::2], short))


def test_a_blind_network_answers_the_same_whatever_the_picture_and_others_do_not() -> None:
    pictures, questions, _ = examples(4)
    for relevance in ("dot", "additive", "blind"):
        network = tiny(relevance).eval()
        same = torch.equal(network(pictures, questions), network(pictures.flip(0), questions))
        assert same == (relevance == "blind")


@pytest.mark.parametrize("relevance", ["dot", "additive"])
def test_ten_questions_are_learnt_by_heart_and_every_weight_learns(relevance: str) -> None:
    network, losses = tiny(relevance), []
    given = examples(10)
    optimiser = torch.optim.Adam(network.parameters(), 0.03)
    for _ in range(25):
        optimiser.zero_grad()
        loss = question_loss(network, *given)
        loss.backward()
        losses.append(loss.item())
        optimiser.step()
    assert losses[-1] < 0.2 < 1 < losses[0]
    assert [name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()] == []
