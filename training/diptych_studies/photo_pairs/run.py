"""Training of one pair part on kept tokens, and its figures on held-out ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from diptych_model import PairConfig
from diptych_model.network import PairPart
from diptych_studies.flops import count_flops, count_parameters
from diptych_studies.one_shot import train_module
from diptych_studies.photo_pairs.tokens import SETS, HeldOut, Pairs, Tokens
from diptych_training.learning.losses import pair_loss, split_questions
from diptych_training.metrics import Ranking, two_stages

THRESHOLD = 1.0  # the weight of the log-loss beside the listwise one, as in the recipe of the released model
RELATED = 40  # pairs at a time, for the cache
QUESTIONS = {"copies": 0, "catalogue": 1}
FIGURES = ("copies_micro_ap", "copies_recall_at_1", "catalogue_recall_at_1", "catalogue_map")
CURVE = 10


def train_and_measure(
    folder: str, *, config: Mapping[str, Any], steps: int, rate: float, seed: int, trunk: bool = True
) -> dict[str, Any]:
    """Train a new pair part on the tokens of a folder: its size, the learning curve, and the figures held out.

    The order of the steps follows from the seed and is the same for all configurations. Without a `trunk` only the
    correspondence learns, and the logits are lines through what is known without one.
    """
    tokens = Tokens(Path(folder))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pair = PairPart(PairConfig.from_dict(config))
    if not trunk:
        pair.requires_grad_(False)
        _get_prior(pair).requires_grad_(True)
    rng, began = np.random.default_rng(seed), time.process_time()
    order = np.concatenate([rng.permutation(tokens.steps) for _ in range(-(-steps // tokens.steps))])
    losses = list(
        train_module(pair, steps, rate, lambda step: learn_step(pair.train(), tokens.read_pairs(int(order[step]))))
    )
    seconds = time.process_time() - began
    size = count_parameters(pair) if trunk else sum(weight.numel() for weight in _get_prior(pair).parameters())
    one = torch.zeros(1, *pair.config.token_shape)
    return {
        "parameters": size,
        "mflop": count_flops(pair.eval(), one, one) / 1e6,
        "seconds": round(seconds, 1),
        "curve": [round(float(np.mean(part)), 4) for part in np.array_split(losses, min(CURVE, len(losses)))],
        **measure_pair_part(pair, tokens),
    }


def learn_step(pair: PairPart, drawn: Pairs) -> float:
    """One step's gradients and its loss, some queries at a time."""
    width, total = drawn.chosen.shape[1], 0.0
    for rows in torch.arange(len(drawn.chosen)).split(max(1, RELATED // width)):
        queries = drawn.tokens[rows].float().repeat_interleave(width, 0)
        logits = pair(queries, drawn.tokens[drawn.chosen[rows].flatten()].float()).unflatten(0, (-1, width))
        asked = split_questions(logits, drawn.matched[rows], drawn.copies[rows])
        loss = torch.stack([pair_loss(answers, THRESHOLD, matched) for answers, matched in asked]).sum()
        loss = loss * (len(rows) / len(drawn.chosen))
        loss.backward()
        total += float(loss.detach())
    return total


def measure_pair_part(pair: PairPart, tokens: Tokens) -> dict[str, float]:
    """The `FIGURES` of a pair part that re-ranks the candidates of every held-out query."""
    found: dict[str, float] = {}
    for kind in SETS:
        held_out = tokens.held_out(kind)
        logits = compute_answers(pair, held_out, QUESTIONS[kind])
        found |= _compute_figures(kind, two_stages(held_out.cosines.numpy(), logits.numpy(), *_get_truth(held_out))[1])
    return {name: found[name] for name in FIGURES}


def measure_embedding(tokens: Tokens) -> dict[str, float]:
    """The `FIGURES` of the order in which the embedding finds the candidates."""
    found: dict[str, float] = {}
    for kind in SETS:
        held_out = tokens.held_out(kind)
        found |= _compute_figures(kind, Ranking(held_out.cosines.numpy(), *_get_truth(held_out)))
    return {name: found[name] for name in FIGURES}


@torch.no_grad()
def compute_answers(pair: PairPart, held_out: HeldOut, question: int) -> Tensor:
    """The logits (Q, K) of a question for all candidates."""
    pair.eval()
    count = held_out.candidates.shape[1]
    rows = [
        pair(query.float().expand(count, -1, -1, -1), held_out.gallery[candidates].float())[:, question]
        for query, candidates in zip(held_out.queries, held_out.candidates, strict=True)
    ]
    return torch.stack(rows)


def _get_truth(held_out: HeldOut) -> tuple[np.ndarray, np.ndarray]:
    return held_out.relevant, held_out.positives


def _compute_figures(kind: str, ranking: Ranking) -> dict[str, float]:
    summary = ranking.summary()
    return {
        f"{kind}_{name}": round(summary[key], 5)
        for name, key in (("micro_ap", "micro_ap"), ("recall_at_1", "recall@1"), ("map", "map"))
    }


def _get_prior(pair: PairPart) -> nn.Module:
    """The line through the similarities that are known without a trunk."""
    assert pair.correspondence is not None
    return pair.correspondence.prior
