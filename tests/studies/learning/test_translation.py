"""Drawn tasks, what is withheld of them, and a network that learns one in seconds."""

import pytest
import torch

from diptych_studies.data.numbers import WORDS, spell_english, spell_german
from diptych_studies.learning.translation import (
    compute_exact_share,
    draw_sequences,
    task_shape,
    train_translation,
    translation_loss,
)
from diptych_studies.networks.translation import END, FIRST, PAD, TranslationConfig

CONFIG = TranslationConfig("dot", words=5, longest=6, width=16, heads=2)


@pytest.mark.parametrize("task", ["reverse", "sort"])
def test_targets_are_the_sources_reversed_or_sorted(task: str) -> None:
    source, target = draw_sequences(task, CONFIG, 50, torch.Generator().manual_seed(0))
    lengths = set()
    for given, wanted in zip(source.tolist(), target.tolist(), strict=True):
        words = given[: given.index(END)]
        lengths.add(len(words))
        expected = words[::-1] if task == "reverse" else sorted(words)
        assert wanted == [*expected, END] + [PAD] * (5 - len(words))
        assert all(FIRST <= word < FIRST + 5 for word in words)
    assert lengths == {3, 4, 5}


def test_numbers_are_asked_for_in_english_and_wanted_in_german() -> None:
    config = task_shape("numbers", CONFIG)
    source, target = draw_sequences("numbers", config, 200, torch.Generator().manual_seed(0))
    spelled = {tuple(spell_english(n)): spell_german(n) for n in range(100, 1000)}
    seen = 0
    for given, wanted in zip(source.tolist(), target.tolist(), strict=True):
        words, answer = ([WORDS[token - FIRST] for token in row[: row.index(END)]] for row in (given, wanted))
        assert set(words) <= set(WORDS[: len(WORDS) // 2])
        assert set(answer) <= set(WORDS[len(WORDS) // 2 :])
        if "thousand" not in words:
            assert spelled[tuple(words)] == answer
            seen += 1
    assert 30 < seen < 70


def test_padding_costs_nothing_and_teaches_nothing() -> None:
    network = CONFIG.build()
    source, target = draw_sequences("sort", CONFIG, 8, torch.Generator().manual_seed(0))
    short = target.clone()
    short[:, 3:] = PAD
    logits = network(source, short)
    expected = -logits.log_softmax(-1).gather(2, short[..., None])[..., 0][short != PAD].mean()
    torch.testing.assert_close(translation_loss(network, source, short), expected)


def test_a_target_is_exact_only_as_a_whole() -> None:
    target = torch.tensor([[5, 4, END, PAD], [4, 4, END, PAD], [5, 5, 5, END]])
    assert compute_exact_share(torch.tensor([[5, 4, END], [4, 5, END], [5, 5, 5]]), target) == pytest.approx(1 / 3)


def test_training_is_told_by_its_seed_and_reverses_what_it_has_not_seen() -> None:
    config = TranslationConfig("additive", words=4, longest=5, width=24, heads=2)
    _, result = train_translation(config, "reverse", steps=150, batch=32, rate=1e-2, held_out=40)
    assert result["greedy"] > 0.8
    assert result["curve"][-1] < 0.3 * result["curve"][0]
    weights = torch.tensor(result["alignment"]["weights"])
    # It looks at the last word first and at the first word last.
    assert weights[0].argmax() == len(weights) - 1
    assert weights[-1].argmax() == 0
    again = train_translation(config, "reverse", steps=2, batch=32, held_out=10)[1]
    assert again == train_translation(config, "reverse", steps=2, batch=32, held_out=10)[1]
