"""The state of a training: all of it comes back, and a damaged one is named."""

from pathlib import Path

import numpy as np
import pytest
import torch

from diptych_training.errors import DataError
from diptych_training.state import restore_state, save_state


def begin() -> tuple[torch.nn.Linear, torch.optim.AdamW, np.random.Generator]:
    module = torch.nn.Linear(3, 2)
    return module, torch.optim.AdamW(module.parameters(), 0.1), np.random.default_rng(1)


def learn(module: torch.nn.Linear, optimiser: torch.optim.AdamW, rng: np.random.Generator) -> float:
    optimiser.zero_grad()
    loss = module(torch.from_numpy(rng.normal(size=(4, 3))).float()).square().mean()
    loss.backward()
    optimiser.step()
    return loss.item()


def test_what_goes_on_from_a_state_learns_as_what_was_not_stopped(tmp_path: Path) -> None:
    whole, again = begin(), begin()
    losses = [learn(*whole), learn(*whole)]
    save_state(tmp_path / "state.pt", *whole, losses=losses, next=torch.tensor([4, 2]))
    others = restore_state(tmp_path / "state.pt", *again)
    assert others["losses"] == losses
    assert others["next"].tolist() == [4, 2]
    assert [learn(*again) for _ in range(3)] == [learn(*whole) for _ in range(3)]


def test_a_damaged_state_is_named(tmp_path: Path) -> None:
    state, (module, optimiser, rng) = tmp_path / "state.pt", begin()
    save_state(state, module, optimiser)
    cases = [state.read_bytes()[:-20], b"half of it", b""]
    for data in cases:
        state.write_bytes(data)
        with pytest.raises(DataError, match=r"state\.pt is damaged: remove it to begin that training anew"):
            restore_state(state, module, optimiser)
    other = torch.nn.Linear(4, 2)
    save_state(state, other, torch.optim.AdamW(other.parameters()), rng)
    with pytest.raises(DataError, match=r"state\.pt is damaged"):
        restore_state(state, module, optimiser, rng)
