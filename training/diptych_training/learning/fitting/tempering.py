"""The share of the trunk's contribution to a logit that is kept: as much as helps on validation.

A logit is what is known without the trunk plus what the trunk adds (`PairPart`), and a trunk that learnt the classes of
its training by heart adds what misleads on others. Between none and all of it lies what generalises, as between the
weights before and after fine-tuning (WiSE-FT: Wortsman et al. 2022).
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from torch import nn

from diptych_model import PairNetwork
from diptych_model.network import PairPart
from diptych_training.tasks.validation import Looked, ValidationSet, look, rank

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)


@torch.no_grad()
def temper(network: PairNetwork, validations: Sequence[ValidationSet], size: int) -> dict[str, float]:
    """Keep of the trunk's contribution to each question's logit the share, one of `SHARES`, with the highest sum of the
    headlines of the validation sets that ask it; return the shares.

    Networks whose logits begin with nothing keep everything.
    """
    if not isinstance(network.pair, PairPart) or network.pair.correspondence is None:
        return {}
    kept = {}
    for column, question in enumerate(network.config.questions):
        asked = [
            (validation, look(network, validation, size))
            for validation in validations
            if validation.question == question
        ]
        if asked:
            trial = partial(_headlines, network, column, asked)
            kept[question] = max(SHARES, key=trial)
            _keep(network, column, kept[question])
    return kept


def _headlines(network: PairNetwork, column: int, asked: Sequence[tuple[ValidationSet, Looked]], share: float) -> float:
    trial = copy.deepcopy(network)
    _keep(trial, column, share)
    return sum(rank(trial, validation, looked)[1].summary()[validation.headline] for validation, looked in asked)


def _keep(network: PairNetwork, column: int, share: float) -> None:
    added = cast(nn.Linear, cast(PairPart, network.pair).head[-1])
    added.weight[column] *= share
    added.bias[column] *= share
