"""Greedy and beam decoding against all there is to write."""

from itertools import groupby, product

import pytest
import torch

from diptych_studies.networks.decoding import beam_search, decode_greedily
from diptych_studies.networks.translation import END, FIRST, KINDS, PAD, TranslationConfig, Translator

WORDS, LONGEST = 3, 4


def made(kind: str, seed: int = 3) -> Translator:
    torch.manual_seed(seed)
    network = TranslationConfig(kind, words=WORDS, longest=LONGEST, width=8, blocks=1, heads=2).build().double()
    for parameter in network.parameters():
        parameter.data += torch.randn_like(parameter) * 0.5
    return network.eval()


def sources(count: int) -> torch.Tensor:
    tokens = torch.randint(FIRST, FIRST + WORDS, (count, 4), generator=torch.Generator().manual_seed(0))
    tokens[:, -1] = END
    return tokens


def everything() -> list[list[int]]:
    """Every target: up to three words and END, or four words that never end."""
    words = range(FIRST, FIRST + WORDS)
    ended = [[*body, END] for length in range(LONGEST) for body in product(words, repeat=length)]
    return ended + [list(body) for body in product(words, repeat=LONGEST)]


def likeliest_of_all(network: Translator, source: torch.Tensor) -> list[int]:
    """The target of the highest probability; those of one length are asked at once."""
    probability = {}
    for _, same in groupby(sorted(everything(), key=len), key=len):
        targets = torch.tensor(list(same))
        logits = network(source.expand(len(targets), -1), targets)
        logits[..., :END] = -torch.inf
        found = logits.log_softmax(-1).gather(-1, targets[..., None]).sum((1, 2))
        probability |= {tuple(target): value for target, value in zip(targets.tolist(), found.tolist(), strict=True)}
    assert len(probability) == len(everything())
    return list(max(probability, key=lambda target: probability[target]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_beam_as_wide_as_everything_finds_the_likeliest_target(kind: str) -> None:
    network, asked = made(kind), sources(5)
    wide = beam_search(network, asked, 3**LONGEST + 40)
    narrow = decode_greedily(network, asked)
    better = 0
    for source, found, quick in zip(asked, wide.tolist(), narrow.tolist(), strict=True):
        likeliest = likeliest_of_all(network, source)
        assert [token for token in found if token != PAD] == likeliest
        better += [token for token in quick if token != PAD] != likeliest
    assert better or kind != "transformer"


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_takes_the_likeliest_token_each_time_and_is_a_beam_of_one(kind: str) -> None:
    network, asked = made(kind), sources(4)
    written = decode_greedily(network, asked)
    one = beam_search(network, asked, 1)
    assert torch.equal(written, one)
    for source, target in zip(asked, written, strict=True):
        kept = target[target != PAD]
        logits = network(source[None], kept[None])[0]
        logits[:, :END] = -torch.inf
        assert torch.equal(logits.argmax(-1), kept)
