"""A small BERT's laws: how two spans lie, what segments tell, that all is seen from both sides, and what it learns."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_studies.networks.bert import Bert, BertConfig
from diptych_studies.networks.language_model import build_window_scales

SMALL = BertConfig(13, span=5, width=12, blocks=2, scales=build_window_scales((1, 2, 3), heads=3, d_a=4))


def bert_of(config: BertConfig, seed: int = 0) -> Bert:
    """Random weights everywhere, in float64: what starts at zero would hide a mistake."""
    network, generator = Bert(config).double(), torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return network.eval()


def spans(count: int, *lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(13, (count, length), generator=generator) for length in lengths]


def test_two_spans_lie_between_the_tokens_of_begin_and_separation_each_in_its_segment() -> None:
    tokens, segments = Bert(SMALL).join_spans(torch.tensor([[3, 4]]), torch.tensor([[5, 6, 7]]))
    assert tokens.tolist() == [[14, 3, 4, 15, 5, 6, 7, 15]]
    assert segments.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]


def test_segments_change_every_answer_where_there_are_any_and_nothing_where_there_are_none() -> None:
    for config, told in ((SMALL, True), (replace(SMALL, segments=False), False)):
        network = bert_of(config)
        tokens, segments = network.join_spans(*spans(2, 5, 5))
        first = torch.zeros_like(segments)
        same = [torch.allclose(a, b) for a, b in zip(network(tokens, segments), network(tokens, first), strict=True)]
        assert same == [not told, not told]


def test_every_place_sees_both_spans() -> None:
    network = bert_of(SMALL)
    tokens, segments = network.join_spans(*spans(1, 5, 5))
    for place in range(1, 12):
        other = tokens.clone()
        other[0, place] = (tokens[0, place] + 1) % 13
        (words, following), (moved, answered) = network(tokens, segments), network(other, segments)
        assert ((words - moved).abs().amax((0, 2)) > 1e-9).all()
        assert (following - answered).abs().max() > 1e-9


def test_ten_pairs_are_learnt_by_heart_hidden_words_and_answers_and_every_weight_learns() -> None:
    torch.manual_seed(0)
    network = Bert(SMALL)
    first, second = spans(10, 5, 5)
    answers, (tokens, segments) = torch.arange(10) % 2, network.join_spans(first, second)
    hidden = tokens.clone()
    hidden[torch.arange(10), torch.arange(10) % 5 + 1] = SMALL.mask
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    asked = hidden == SMALL.mask
    for _ in range(120):
        words, following = network(hidden, segments)
        loss = F.cross_entropy(words[asked], tokens[asked]) + F.cross_entropy(following, answers)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    words, following = network(hidden, segments)
    assert torch.equal(words[asked].argmax(-1), tokens[asked])
    assert torch.equal(following.argmax(-1), answers)
