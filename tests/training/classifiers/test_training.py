from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from diptych_training.classifiers.training import Budget, answers, as_input, train_classifier
from diptych_training.errors import DataError


class Mean(nn.Module):
    """Logits from the mean colour of a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.mean((1, 2)))


def coloured(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of noise in which one of three colours prevails, and which one."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 3
    pixels = rng.integers(0, 128, (count, 16, 16, 3), np.uint8)
    pixels[np.arange(count), :, :, labels] += 100
    return pixels, labels


def taught(seed: int, *, steps: int = 60) -> tuple[nn.Module, list[float]]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Mean()
    return network, train_classifier(network, *coloured(30), Budget(steps=steps, batch=8, rate=0.05, warmup=5), seed)


def test_a_classifier_learns_what_pictures_show_and_names_it() -> None:
    network, losses = taught(0)
    assert len(losses) == 60
    assert np.mean(losses[-10:]) < 0.7 * np.mean(losses[:10])
    pixels, labels = coloured(30)
    assert np.array_equal(answers(network, pixels, batch=7), labels)
    assert not network.training


def test_the_same_seed_gives_the_same_losses_and_another_others() -> None:
    assert taught(1)[1] == taught(1)[1] != taught(2)[1]


def test_pictures_are_moved_and_mirrored_while_learning_and_not_while_answering() -> None:
    seen = []

    class Watching(Mean):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            return super().forward(x)

    network, ramp = Watching(), np.zeros((1, 32, 32, 3), np.uint8)
    ramp[0, :, :, 0], ramp[0, :, :, 1] = np.arange(32)[:, None] * 8, np.arange(32) * 8
    train_classifier(network, ramp, np.zeros(1, np.int64), Budget(steps=20, batch=4), 0)
    centres = torch.cat(seen)[:, 16, 16, :2]
    assert len(centres.unique(dim=0)) > 20
    across = torch.cat(seen)[:, 16, 17, 1] - torch.cat(seen)[:, 16, 16, 1]
    assert {round(float(step), 3) for step in across} == {round(8 / 127.5, 3), -round(8 / 127.5, 3)}
    seen.clear()
    answers(network, ramp)
    assert torch.equal(seen[0], as_input(ramp))


def test_the_rate_rises_and_falls_to_nothing() -> None:
    budget = Budget(steps=100, warmup=10, rate=0.5)
    rates = [budget.rate_at(step) for step in range(100)]
    assert rates.index(max(rates)) == 9
    assert rates[0] < 0.1
    assert rates[-1] < 0.001


@pytest.mark.parametrize("changed", [{"steps": 0}, {"rate": 0.0}, {"smoothing": 1.0}])
def test_a_budget_that_cannot_be_is_refused(changed: dict) -> None:
    with pytest.raises(DataError, match="must be positive, smoothing from 0 to below 1"):
        Budget(**changed)


def stopped_after(steps: int):
    """Progress that ends a run as Ctrl-C does."""

    def progress(items):
        for done, step in enumerate(items):
            if done == steps:
                raise KeyboardInterrupt
            yield step

    return progress


def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    budget, state = Budget(steps=12, batch=8, rate=0.05, warmup=5), tmp_path / "state.pt"
    (whole, expected), again = taught(3, steps=12), Mean()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = Mean()
    with pytest.raises(KeyboardInterrupt):
        train_classifier(first, *coloured(30), budget, 3, state=state, save_every=5, progress=stopped_after(8))
    losses = train_classifier(again, *coloured(30), budget, 3, state=state, save_every=5)
    assert losses == expected
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), again.parameters(), strict=True))
