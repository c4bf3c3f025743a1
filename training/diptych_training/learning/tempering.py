"""The share of the trunk's contribution to a logit that is kept, and the weight added to the cosine: as helps on
validation.

A logit is what is known without the trunk plus what the trunk adds (`PairPart`). A trunk that learnt the classes of its
training by heart adds what misleads on others; between none and all of it lies what generalises, as between the
weights before and after fine-tuning (WiSE-FT: Wortsman et al. 2022). The prior is fitted by log-loss, which asks for
the right level; among the candidates of one query the embedding's cosine may deserve more weight than that.
"""

from collections.abc import Sequence
from itertools import product
from typing import cast

import torch
from torch import nn

from diptych_model import PairNetwork
from diptych_model.network import PairPart
from diptych_training.tasks.validation import (
    PAIRS,
    ValidationSet,
    encode_validation,
    nearest_candidates,
    rank_stages,
    select_answer,
)

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
COSINES = (0.0, 5.0, 10.0, 20.0)


@torch.no_grad()
def temper_network(
    network: PairNetwork, validations: Sequence[ValidationSet], size: int
) -> dict[str, dict[str, float]]:
    """Keep of the trunk's contribution to each question's logit the `share`, one of `SHARES`, and add to the weight of
    the cosine of the question's part of the embedding the `cosine`, one of `COSINES`, that have the highest sum of the
    headlines of the validation sets that ask it; return both by question. Of equal ones the first: those nearest to the
    network as it is.

    Networks whose logits begin with nothing stay as they are.
    """
    if not isinstance(network.pair, PairPart) or network.pair.correspondence is None:
        return {}
    network.eval()
    chosen = {}
    # All are measured on the network as it came: what is asked of one question is no answer to another.
    for column, question in enumerate(network.config.questions):
        candidates = [Candidates(network, each, size) for each in validations if each.question == question]
        if candidates:
            chosen[question] = max(
                product(SHARES, COSINES),
                key=lambda trial: sum(each.measure_headline(column, *trial) for each in candidates),
            )
    for column, question in enumerate(network.config.questions):
        if question in chosen:
            share, cosine = chosen[question]
            added = cast(nn.Linear, network.pair.head[-1])
            added.weight[column] *= share
            added.bias[column] *= share
            network.pair.correspondence.prior.weight[column, network.pair.embedding_part(column)] += cosine
    return {question: {"share": share, "cosine": cosine} for question, (share, cosine) in chosen.items()}


class Candidates:
    """The candidates of a validation set's queries, with the summands of their logits."""

    def __init__(self, network: PairNetwork, validation: ValidationSet, size: int) -> None:
        self.network, self.validation = network, validation
        looked = encode_validation(network, validation, size)
        self.best, self.cosines = nearest_candidates(network, validation, looked)
        rows_of = torch.arange(len(self.best), device=self.best.device).repeat_interleave(self.best.shape[1])
        summands = [
            network.logit_summands(looked.query_tokens[rows], looked.tokens[found])
            for rows, found in zip(rows_of.split(PAIRS), self.best.flatten().split(PAIRS), strict=True)
        ]
        self.prior, self.added, self.known = (torch.cat(each) for each in zip(*summands, strict=True))

    def measure_headline(self, column: int, share: float, cosine: float) -> float:
        """The figure by which the set is judged, with this share and this weight of the cosine of a question."""
        shares = torch.ones_like(self.added[0])
        shares[column] = share
        logits = self.prior + self.added * shares
        pair = cast(PairPart, self.network.pair)
        logits[:, column] += cosine * self.known[:, pair.embedding_part(column)]
        answers = select_answer(self.network, pair.question_logits(logits), self.validation.question).view(
            self.best.shape
        )
        return rank_stages(self.validation, self.best, self.cosines, answers)[1].summary()[self.validation.headline]
