"""DenseNets with any mixer: against torch's own layers, the known sizes, and that they learn."""

from typing import Any

import pytest
import torch
from drawing import draw, losses_of_training
from networks import MIXING

from diptych_studies.flops import count_parameters
from diptych_studies.networks.densenet import DEPTHS, DenseNet


def tiny(**settings: Any) -> DenseNet:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return DenseNet((2, 1), 5, 20, 12, growth=6, **settings)


@pytest.mark.parametrize(("depth", "known"), [(121, 7_978_856), (169, 14_149_480)])
def test_the_parameters_of_the_known_depths(depth: int, known: int) -> None:
    with torch.device("meta"):
        network = DenseNet(DEPTHS[depth], 1000, 224, 224)
    assert count_parameters(network) == known
    assert depth == 1 + 2 * sum(DEPTHS[depth]) + len(DEPTHS[depth])


@pytest.mark.parametrize("mixing", MIXING)
def test_it_learns_eight_random_pictures_by_heart(mixing: str) -> None:
    network = tiny(spatial=MIXING[mixing])
    losses = losses_of_training(network)
    assert losses[0] > 1
    assert losses[-1] < 0.1
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DenseNet((), 5, 20, 12), "must be positive"),
        (lambda: DenseNet((1,), 5, 20, 12, growth=0), "must be positive"),
        (lambda: tiny()(draw(2, 3, 20, 12).float()), r"must be \(B, N, M, 3\), channels last, got \(2, 3, 20, 12\)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
