import copy
from itertools import product
from typing import cast

import numpy as np
import pytest
import torch
from networks import small_network
from torch import nn

from diptych_model import PairNetwork
from diptych_model.network import PairPart
from diptych_training.learning.tempering import COSINES, SHARES, temper_network
from diptych_training.tasks.validation import ValidationSet, validate


def network_of_two() -> PairNetwork:
    """Its trunk adds nothing yet."""
    network = small_network(pixels=32, questions=("copy", "thing"), correspondence=True, channels=8, merge=2).eval()
    nn.init.zeros_(added(network).weight)
    nn.init.zeros_(added(network).bias)
    return network


@pytest.fixture
def validation() -> ValidationSet:
    pictures = torch.randint(0, 256, (9, 32, 32, 3), generator=torch.Generator().manual_seed(0)).byte()
    return ValidationSet(pictures, pictures, np.eye(9, dtype=bool), "recall@1", question="thing")


def added(network: PairNetwork) -> nn.Linear:
    return cast(nn.Linear, cast(PairPart, network.pair).head[-1])


def prior(network: PairNetwork) -> nn.Linear:
    correspondence = cast(PairPart, network.pair).correspondence
    assert correspondence is not None
    return correspondence.prior


def test_what_misleads_is_not_kept_and_the_other_question_stays_as_it_is(
    tiny_network, validation: ValidationSet
) -> None:
    network = network_of_two()
    assert temper_network(network, [validation], 32) == {"thing": {"share": 1.0, "cosine": 0.0}}, "it does no harm"
    assert temper_network(tiny_network, [validation], 32) == {}, "it has no prior"
    assert validate(network, validation, 32)[1].summary()["recall@1"] == 1
    nn.init.normal_(added(network).weight, std=30, generator=torch.Generator().manual_seed(1))
    before = added(network).weight.clone()
    assert validate(network, validation, 32)[1].summary()["recall@1"] < 1
    assert temper_network(network, [validation], 32) == {"thing": {"share": 0.0, "cosine": 0.0}}
    assert (added(network).weight[1] == 0).all()
    assert added(network).weight[0].equal(before[0])
    assert validate(network, validation, 32)[1].summary()["recall@1"] == 1


@pytest.mark.parametrize("seed", [2, 3])
def test_share_and_cosine_are_the_first_of_the_best_as_validation_finds_them(
    validation: ValidationSet, seed: int
) -> None:
    network = network_of_two()
    nn.init.normal_(added(network).weight, std=8, generator=torch.Generator().manual_seed(seed))
    figures = {}
    for share, cosine in product(SHARES, COSINES):
        trial = copy.deepcopy(network)
        added(trial).weight.data[1] *= share
        prior(trial).weight.data[1, 0] += cosine
        figures[share, cosine] = validate(trial, validation, 32)[1].summary()["recall@1"]
    assert len(set(figures.values())) > 2
    best = max(figures, key=lambda trial: figures[trial])
    before = prior(network).weight[1, 0].item()
    assert temper_network(network, [validation], 32) == {"thing": {"share": best[0], "cosine": best[1]}}
    assert prior(network).weight[1, 0].item() == pytest.approx(before + best[1])
    assert validate(network, validation, 32)[1].summary()["recall@1"] == figures[best]
