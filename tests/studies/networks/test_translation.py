"""Sequence to sequence: masks, teacher forcing, attention as it is written, and ten examples learnt by heart."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_studies.networks.decoding import decode_greedily
from diptych_studies.networks.translation import (
    BEGIN,
    END,
    FIRST,
    KINDS,
    PAD,
    Recurrent,
    TranslationConfig,
    Translator,
)


def made(kind: str, **changes: int) -> Translator:
    torch.manual_seed(7)
    sizes = {"words": 5, "longest": 7, "width": 12, "blocks": 2, "heads": 3} | changes
    return TranslationConfig(kind, **sizes).build().double()


def drawn(count: int, length: int, seed: int, words: int = 5) -> Tensor:
    """Sequences (count, length): words, then END."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(FIRST, FIRST + words, (count, length), generator=generator)
    tokens[:, -1] = END
    return tokens


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_sees_itself_or_what_comes_after_it(kind: str) -> None:
    network, source, target = made(kind), drawn(2, 5, 1), drawn(2, 7, 2)
    other = target.clone()
    other[:, 3:] = (other[:, 3:] - FIRST + 1) % 5 + FIRST
    one, changed = network(source, target), network(source, other)
    torch.testing.assert_close(one[:, :4], changed[:, :4])
    assert ((one[:, 4:] - changed[:, 4:]).abs().amax(-1) > 1e-9).all()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_of_the_source_leaves_no_trace(kind: str) -> None:
    network, source, target = made(kind), drawn(3, 4, 1), drawn(3, 5, 2)
    padded = F.pad(source, (0, 3), value=PAD)
    torch.testing.assert_close(network(padded, target), network(source, target))
    weights = network.alignment(padded, target)
    torch.testing.assert_close(weights[..., :4], network.alignment(source, target))
    assert not weights[..., 4:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_teacher_forcing_is_decoding_the_true_tokens_one_by_one(kind: str) -> None:
    network, source, target = made(kind), drawn(2, 5, 1), drawn(2, 4, 2)
    memory, prefix, steps = network.encode(source), torch.full((2, 1), BEGIN), []
    for token in target.unbind(1):
        steps.append(network.decode(memory, source == PAD, prefix)[0][:, -1])
        prefix = torch.cat([prefix, token[:, None]], 1)
    torch.testing.assert_close(torch.stack(steps, 1), network(source, target))


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_learns_and_every_token_of_the_source_is_heard(kind: str) -> None:
    network, source, target = made(kind), drawn(4, 6, 1), drawn(4, 5, 2)
    F.cross_entropy(network(source, target).transpose(1, 2), target).backward()
    silent = [
        name for name, parameter in network.named_parameters() if parameter.grad is None or not parameter.grad.any()
    ]
    assert not silent
    memory = network.encode(source).detach().requires_grad_()
    network.decode(memory, source == PAD, target)[0].square().sum().backward()
    assert memory.grad is not None
    assert (memory.grad.abs().amax(-1) > 0).all()


def test_additive_and_dot_attention_are_the_formulas_of_their_papers() -> None:
    for kind in ("additive", "dot"):
        network = made(kind)
        assert isinstance(network, Recurrent)
        source = drawn(1, 5, 1)
        (memory,) = network.encode(source)
        state = network.begin(memory.mean(0)[None]).tanh()[0]
        scores = []
        for h in memory:
            if kind == "additive":
                assert network.U is not None
                assert network.v is not None
                inner = [torch.tanh(network.W.weight[i] @ state + network.U.weight[i] @ h) for i in range(12)]
                scores.append(sum(v * t for v, t in zip(network.v.weight[0], inner, strict=True)))
            else:
                scores.append(sum((network.W.weight @ state) * h) / 12**0.5)
        whole = sum(torch.exp(score) for score in scores)
        expected = torch.stack([torch.exp(score) / whole for score in scores])
        torch.testing.assert_close(network.alignment(source, drawn(1, 1, 2))[0, 0], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_ten_examples_are_learnt_by_heart_and_written_greedily(kind: str) -> None:
    network = made(kind, width=24).float()
    source, target = drawn(10, 5, 1), drawn(10, 5, 2)
    optimiser = torch.optim.AdamW(network.parameters(), 1e-2)
    for _ in range(150):
        F.cross_entropy(network(source, target).transpose(1, 2), target).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert torch.equal(decode_greedily(network.eval(), source)[:, :5], target)
