"""Training a small BERT on spans of a text: hidden words, and whether the second span follows the first."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_studies.data.text import Text
from diptych_studies.data.words import Vocabulary
from diptych_studies.flops import count_parameters
from diptych_studies.learning.language import Budget
from diptych_studies.networks.bert import Bert, BertConfig
from diptych_training.errors import DataError
from diptych_training.optimisation import warm_cosine

HELD_OUT = 2000  # pairs of spans
POINTS = 10  # of a curve


@dataclass(frozen=True)
class SpanPairs:
    """Pairs of spans (B, n) of a text, and whether the second follows the first (B,): 1 or 0."""

    first: Tensor
    second: Tensor
    follows: Tensor


def draw_pairs(words: Tensor, span: int, count: int, generator: torch.Generator) -> SpanPairs:
    """Spans of `span` words, every second one, by chance, before the words that follow it, the others before any."""
    if len(words) < 4 * span:
        raise DataError(f"the text has {len(words)} words, pairs of spans need {4 * span} at least: give more text")
    starts = torch.randint(len(words) - 2 * span + 1, (count,), generator=generator)
    others = torch.randint(len(words) - span + 1, (count,), generator=generator)
    follows = torch.randint(2, (count,), generator=generator)
    steps = torch.arange(span)
    second = torch.where(follows.bool(), starts + span, others)
    return SpanPairs(words[starts[:, None] + steps], words[second[:, None] + steps], follows)


def hide_words(tokens: Tensor, config: BertConfig, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Hide a share of the words of tokens (B, T); return where, too, bool (B, T). Of these, as in BERT, four fifths are
    masked, a tenth is another word, and a tenth is left as it is, so that no place is known not to be asked.
    """
    drawn = torch.rand(tokens.shape, generator=generator)
    chosen = (drawn < share) & (tokens < config.words)
    other = torch.randint(config.words, tokens.shape, generator=generator)
    fate = torch.rand(tokens.shape, generator=generator)
    hidden = tokens.masked_fill(chosen & (fate < 0.8), config.mask)
    return torch.where(chosen & (fate >= 0.9), other, hidden), chosen


def bert_losses(network: Bert, pairs: SpanPairs, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The mean nats of a hidden word and of the answer whether the second span follows."""
    tokens, segments = network.join_spans(pairs.first, pairs.second)
    hidden, chosen = hide_words(tokens, network.config, share, generator)
    words, following = network(hidden, segments)
    return F.cross_entropy(words[chosen], tokens[chosen]), F.cross_entropy(following, pairs.follows)


def train_bert(
    config: BertConfig, text: Text, vocabulary: Vocabulary, budget: Budget, seed: int
) -> tuple[Bert, dict[str, Any]]:
    """Train on a text and measure on its held-out part; the weights, pairs and hidden words follow from the seed.

    The result is JSON: `curve` has both losses in nats in ten parts of the training; for what is measured see
    `measure_bert`.
    """
    if len(vocabulary) != config.words:
        raise DataError(f"the network has {config.words} words and the vocabulary {len(vocabulary)}")
    words, held_out = (torch.from_numpy(vocabulary.encode(part)) for part in (text.train, text.held_out))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Bert(config)
    generator = torch.Generator().manual_seed(seed)
    heavy = [p for name, p in network.named_parameters() if p.dim() > 1 and "table" not in name]
    light = [p for name, p in network.named_parameters() if not (p.dim() > 1 and "table" not in name)]
    groups = [{"params": heavy, "weight_decay": budget.decay}, {"params": light, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=budget.rate)
    losses = []
    for step in range(budget.steps):
        for group in optimiser.param_groups:
            group["lr"] = warm_cosine(budget.rate, step, budget.steps, budget.warmup)
        pairs = draw_pairs(words, config.span, budget.batch, generator)
        hidden, following = bert_losses(network, pairs, budget.share, generator)
        (hidden + following).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), budget.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append([hidden.item(), following.item()])
    result = measure_bert(network.eval(), held_out, share=budget.share)
    parts = np.array_split(np.array(losses), min(POINTS, budget.steps))
    curve = [[round(float(value), 4) for value in part.mean(0)] for part in parts]
    return network, {"parameters": count_parameters(network), "curve": curve, **result}


@torch.no_grad()
def measure_bert(network: Bert, words: Tensor, *, share: float = 0.15, count: int = HELD_OUT) -> Mapping[str, Any]:
    """Measure on pairs of spans of a text that are always the same: `bits_per_word` of hidden words, the share of them
    guessed rightly (`words_right`, beside `words_base`, the share of the commonest one), and of `pairs` whether the
    second follows (`follows_right`).
    """
    generator = torch.Generator().manual_seed(0)
    nats, right, asked, follow, seen = 0.0, 0, 0, 0, []
    drawn = draw_pairs(words, network.config.span, count, generator)
    for part in torch.arange(count).split(50):
        pairs = SpanPairs(drawn.first[part], drawn.second[part], drawn.follows[part])
        tokens, segments = network.join_spans(pairs.first, pairs.second)
        hidden, chosen = hide_words(tokens, network.config, share, generator)
        scores, following = network(hidden, segments)
        nats += float(F.cross_entropy(scores[chosen], tokens[chosen], reduction="sum"))
        right += int((scores[chosen].argmax(-1) == tokens[chosen]).sum())
        asked += int(chosen.sum())
        follow += int((following.argmax(-1) == pairs.follows).sum())
        seen.append(tokens[chosen])
    commonest = int(torch.cat(seen).bincount().max())
    return {
        "bits_per_word": nats / asked / math.log(2),
        "words_right": right / asked,
        "words_base": commonest / asked,
        "follows_right": follow,
        "pairs": count,
    }
