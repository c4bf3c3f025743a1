"""Training networks that translate on drawn tasks that can be solved exactly: reversing a sequence, sorting it, and
writing numbers from a hundred to a million in German words that are given in English ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_studies.data import numbers
from diptych_studies.flops import count_parameters
from diptych_studies.networks.decoding import beam_search, decode_greedily
from diptych_studies.networks.translation import END, FIRST, PAD, TranslationConfig, Translator
from diptych_training.errors import DataError
from diptych_training.optimisation import warm_cosine

SHORTEST = 3  # words of a sequence
BEAM = 4
POINTS = 10  # of a curve
NUMBERS = "numbers"

Pairs = list[tuple[list[int], list[int]]]


def _draw_reordered_words(
    order: Callable[[Tensor], Tensor], config: TranslationConfig, count: int, generator: torch.Generator
) -> Pairs:
    """Draw sequences of random words, and each in another order."""
    if config.longest <= SHORTEST:
        raise DataError(f"sequences have {SHORTEST} words and their end at least: longest must be above {SHORTEST}")
    pairs: Pairs = []
    for length in torch.randint(SHORTEST, config.longest, (count,), generator=generator).tolist():
        words = torch.randint(FIRST, config.tokens, (length,), generator=generator)
        pairs.append((words.tolist(), order(words).tolist()))
    return pairs


def _spelled_numbers(config: TranslationConfig, count: int, generator: torch.Generator) -> Pairs:
    """Numbers of three to six digits, each length as often as the others, in English and in German words."""
    if config != task_shape(NUMBERS, config):
        raise DataError(f"the task {NUMBERS!r} has {len(numbers.WORDS)} words and {numbers.LONGEST} of them at most")
    least = 10.0 ** torch.randint(2, 6, (count,), generator=generator)
    drawn = (least * (1 + 9 * torch.rand(count, generator=generator, dtype=torch.float64))).long().tolist()
    first = len(numbers.WORDS) // 2  # where the German words begin
    english = {word: FIRST + place for place, word in enumerate(numbers.WORDS[:first])}
    german = {word: FIRST + first + place for place, word in enumerate(numbers.WORDS[first:])}
    return [
        ([english[word] for word in numbers.spell_english(n)], [german[word] for word in numbers.spell_german(n)])
        for n in drawn
    ]


TASKS: Mapping[str, Callable[[TranslationConfig, int, torch.Generator], Pairs]] = {
    "reverse": partial(_draw_reordered_words, lambda words: words.flip(0)),
    "sort": partial(_draw_reordered_words, lambda words: words.sort().values),
    NUMBERS: _spelled_numbers,
}


def task_shape(task: str, config: TranslationConfig) -> TranslationConfig:
    """The config with the vocabulary and the longest sequence that a task has of its own, if any."""
    if task != NUMBERS:
        return config
    return replace(config, words=len(numbers.WORDS), longest=numbers.LONGEST + 1)


def draw_sequences(
    task: str, config: TranslationConfig, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Sources and targets (count, longest) of a task: their words, `END`, and `PAD`."""
    if task not in TASKS:
        raise DataError(f"the task must be one of {', '.join(TASKS)}, got {task!r}")
    source, target = torch.full((2, count, config.longest), PAD)
    for row, pair in enumerate(TASKS[task](config, count, generator)):
        for side, words in zip((source, target), pair, strict=True):
            side[row, : len(words) + 1] = torch.tensor([*words, END])
    return source, target


def train_translation(
    config: TranslationConfig,
    task: str,
    *,
    steps: int = 600,
    batch: int = 32,
    rate: float = 5e-3,
    seed: int = 0,
    held_out: int = 200,
) -> tuple[Translator, dict[str, Any]]:
    """Train a network by teacher forcing, and measure it on sequences that it has not seen.

    The weights and the sequences follow from the seed; the held-out ones are always the same, and of training
    sequences none of them is left in. The result is JSON: `curve` has the loss in nats a token in ten parts of the
    training, `greedy` and `beam` are the shares of held-out targets that are written without a fault, `alignment` is
    that of the first held-out sequence, with its words.
    """
    if min(steps, batch, held_out) < 1 or rate <= 0:
        raise DataError(f"steps, batch, held_out and rate must be positive, got {steps}, {batch}, {held_out}, {rate}")
    source, target = draw_sequences(task, config, held_out, torch.Generator().manual_seed(2**31))
    withheld = {tuple(row) for row in source.tolist()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = config.build()
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=0.01)
    losses = []
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = warm_cosine(rate, step, steps, 50)
        given, wanted = draw_sequences(task, config, batch, generator)
        seen = torch.tensor([tuple(row) not in withheld for row in given.tolist()])
        loss = translation_loss(network, given[seen], wanted[seen])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    network.eval()
    with torch.no_grad():
        seen = network.alignment(source[:1], target[:1])[0]
    asked, wanted = (int((side[0] != PAD).sum()) - 1 for side in (source, target))
    return network, {
        "parameters": count_parameters(network),
        "curve": [round(float(np.mean(part)), 4) for part in np.array_split(losses, min(POINTS, steps))],
        "greedy": compute_exact_share(decode_greedily(network, source), target),
        "beam": compute_exact_share(beam_search(network, source, BEAM), target),
        "alignment": {
            "source": _spell_words(task, source[0, :asked]),
            "target": _spell_words(task, target[0, :wanted]),
            "weights": [[round(float(w), 4) for w in row[:asked]] for row in seen[:wanted]],
        },
    }


def translation_loss(network: Translator, source: Tensor, target: Tensor) -> Tensor:
    """The mean cross-entropy in nats of every token of the targets, their ends included and their padding not."""
    return F.cross_entropy(network(source, target).transpose(1, 2), target, ignore_index=PAD)


def compute_exact_share(written: Tensor, target: Tensor) -> float:
    """The share of targets (B, T) that were written without a fault.

    What stands behind their `END` does not count.
    """
    padded = F.pad(written, (0, max(0, target.shape[1] - written.shape[1])), value=PAD)
    return float((padded[:, : target.shape[1]] == target).all(1).double().mean())


def _spell_words(task: str, tokens: Tensor) -> list[int] | list[str]:
    """Spell the words of a sequence as people read them."""
    places = (tokens - FIRST).tolist()
    return [numbers.WORDS[place] for place in places] if task == NUMBERS else places
