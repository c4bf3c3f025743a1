"""The optimisation of any network: its rate, its average, and a state from which it goes on to the same weights."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from diptych_training.errors import DataError
from diptych_training.optimisation import Budget, Optimisation, warm_cosine

BUDGET = Budget(steps=20, warmup=4, rate=0.1, average=0.5)


def begin(budget: Budget = BUDGET) -> Optimisation:
    network = torch.nn.Linear(3, 2)
    torch.nn.init.ones_(network.weight)
    return Optimisation(network, budget, steps=budget.steps)


def weight(network: torch.nn.Module) -> Tensor:
    return network.state_dict()["weight"].clone()


def learn(optimisation: Optimisation) -> float:
    """Take a step on what follows from its number."""
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(optimisation.step))

    def differentiate() -> float:
        loss = optimisation.network(x).square().mean()
        loss.backward()
        return loss.item()

    return optimisation.take_step(differentiate)


def test_the_rate_rises_while_it_warms_up_and_then_falls_along_a_cosine_to_nothing() -> None:
    rates = [warm_cosine(0.1, step, 100, 10) for step in range(101)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert [rates[0], rates[50], rates[100]] == pytest.approx([0.01, 0.05, 0.0])


def test_the_average_follows_the_weights_and_is_the_network_where_none_is_wanted() -> None:
    averaged, plain = begin(), begin(Budget(steps=20, average=0.0))
    for _ in range(6):
        before = weight(averaged.average)
        learn(averaged)
        between = (weight(averaged.average) - before) * (weight(averaged.network) - weight(averaged.average))
        assert (between >= 0).all()
    assert not torch.equal(weight(averaged.average), weight(averaged.network))
    assert plain.average is plain.network


def test_what_goes_on_from_a_state_learns_as_what_was_not_stopped(tmp_path: Path) -> None:
    whole, again = begin(), begin()
    for _ in range(3):
        learn(whole)
    whole.save(tmp_path / "state.pt", chosen=torch.tensor([4, 2]))
    others = again.restore(tmp_path / "state.pt", "")
    assert others["chosen"].tolist() == [4, 2]
    assert [learn(again) for _ in range(3)] == [learn(whole) for _ in range(3)]
    assert torch.equal(weight(again.average), weight(whole.average))


def test_a_damaged_state_is_named_with_advice(tmp_path: Path) -> None:
    state = tmp_path / "state.pt"
    begin().save(state)
    for data in (state.read_bytes()[:-20], b"half of it", b""):
        state.write_bytes(data)
        with pytest.raises(DataError, match=r"state\.pt is damaged \(.*\): begin anew"):
            begin().restore(state, "begin anew")


def test_a_gradient_that_is_not_finite_leaves_the_weights_and_says_what_to_do() -> None:
    optimisation = begin()
    before = weight(optimisation.network)
    with pytest.raises(DataError, match=r"gradient of step 0 is not finite: .* lower learning.rate"):
        optimisation.take_step(lambda: (optimisation.network(torch.ones(1, 3)).sum() * torch.inf).backward())
    assert torch.equal(weight(optimisation.network), before)


@pytest.mark.parametrize("changes", [{"steps": 0}, {"rate": 0.0}, {"warmup": 0}, {"decay": -1.0}, {"average": 1.0}])
def test_a_budget_that_does_not_train_is_refused(changes: dict) -> None:
    with pytest.raises(DataError, match="steps, batch, warmup and rate must be positive"):
        Budget(**changes)
