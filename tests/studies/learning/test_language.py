"""Training language models: they learn, the same seed gives the same numbers, and what is measured is what is said."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from diptych_studies.data.text import Text
from diptych_studies.data.words import Vocabulary
from diptych_studies.learning.language import (
    Budget,
    learn_language,
    measure_language,
    sample_bytes,
    sample_words,
    train_language,
)
from diptych_studies.networks.language_model import LanguageConfig, LanguageModel, build_window_scales, load_language

PATTERN = b"red fox, brown dog. "
TEXT = Text("pattern", PATTERN * 500, PATTERN * 210, "block")
SMALL = LanguageConfig(
    context=24, width=24, blocks=1, scales=build_window_scales((1, 2), heads=2, d_a=8), expansion=2.0
)
SHORT = Budget(steps=120, batch=8, rate=1e-2, warmup=5)


@pytest.fixture(scope="module")
def learnt() -> tuple[LanguageModel, dict]:
    return train_language(SMALL, TEXT, SHORT, seed=1)


def test_a_model_learns_a_repeating_pattern_and_continues_it(learnt: tuple[LanguageModel, dict]) -> None:
    model, result = learnt
    assert result["learning"][0] > 3
    assert result["bits_per_byte"] < 0.5
    assert sample_bytes(model, PATTERN[:13], 47, temperature=0) == (PATTERN * 3)[13:]
    assert len(result["learning"]) == 10
    assert json.loads(json.dumps(result)) == result


def test_a_masked_model_learns_it_too() -> None:
    config = LanguageConfig.from_dict(SMALL.to_dict() | {"objective": "masked"})
    _, result = train_language(config, TEXT, replace(SHORT, steps=180), seed=1)
    assert result["learning"][0] > 3
    assert result["bits_per_byte"] < 1.5


def test_a_model_of_words_learns_the_pattern_too_and_writes_words(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_bytes(PATTERN * 2500)
    result = learn_language(path, tmp_path / "model", SMALL, SHORT, words=50)
    assert result["bits_per_word"] < 0.5
    model, metadata = load_language(tmp_path / "model")
    vocabulary = Vocabulary(tuple(metadata["words"]))
    assert vocabulary.words == ("?unknown", ",", ".", "brown", "dog", "fox", "red")
    assert model.config.vocabulary == 7
    assert sample_words(model, vocabulary, "red fox, brown", 5, temperature=0) == "dog . red fox ,"


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_programs_own_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    budget = Budget(steps=3, batch=2, warmup=1)
    (first, a), (second, b), (_, c) = (train_language(SMALL, TEXT, budget, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.rand(1), expected)
    assert (a["bits_per_byte"], a["blocks"], a["learning"]) == (b["bits_per_byte"], b["blocks"], b["learning"])
    assert a["bits_per_byte"] != c["bits_per_byte"]
    for p, q in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q)


def bits_by_hand(model: LanguageModel, data: bytes) -> list[float]:
    """Each byte after the first, from the bytes before it in its window, one at a time."""
    size, bits = model.config.context, []
    for place in range(1, len(data)):
        start = (place - 1) // size * size
        if start + size >= len(data):
            break
        logits = model(torch.tensor([list(data[start:place])]))[0, -1]
        bits.append(-float(logits.detach().log_softmax(-1)[data[place]]) / math.log(2))
    return bits


def test_bits_per_byte_is_what_predicting_byte_by_byte_costs(learnt: tuple[LanguageModel, dict]) -> None:
    model, _ = learnt
    data = (PATTERN + b"And now another thing: ") * 6
    by_hand = bits_by_hand(model, data)
    measured = measure_language(model, data)
    assert len(by_hand) == (len(data) - 1) // 24 * 24
    assert measured["bits_per_byte"] == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-4)


def test_an_untrained_masked_model_is_measured_on_the_same_hidden_bytes_each_time() -> None:
    config = LanguageConfig.from_dict(SMALL.to_dict() | {"objective": "masked"})
    model = LanguageModel(config)
    first, again = (measure_language(model, TEXT.held_out) for _ in range(2))
    assert first == again
    # The hidden byte itself is not given: a model whose every logit is its own input would otherwise know it.
    with torch.no_grad():
        for block in model.blocks:
            block.msac.H_phi.zero_()
            block.feed[-1].weight.zero_()  # pyright: ignore[reportArgumentType, reportCallIssue]
        model.embedding.weight.mul_(10)
    assert measure_language(model, TEXT.held_out)["bits_per_byte"] > 4
