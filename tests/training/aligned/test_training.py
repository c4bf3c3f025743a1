"""Training the aligned-pair network: what is drawn, and that a run which was stopped goes on to the same numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from diptych_model.networks.aligned import AlignedPairNetwork
from diptych_training.aligned.recipe import Budget
from diptych_training.aligned.shelves import KeptPair
from diptych_training.aligned.training import Draws, batch, odds_of, train_aligned

BUDGET = Budget(steps=24, batch=8, rate=1e-2, warmup=4, small=48)


def kept(count: int, *, copy: bool, kind: str = "noise") -> list[KeptPair]:
    """Pictures beside others, or beside themselves a little darker."""
    found = []
    for number in range(count):
        rng = np.random.default_rng([number, copy])
        a, b = rng.integers(0, 256, (2, 40, 48, 3), np.uint8)
        b = (a * 0.8).astype(np.uint8) if copy else b
        found.append(KeptPair(np.dstack([a, b, np.ones((40, 48), np.uint8)]), copy, kind))
    return found


def network() -> AlignedPairNetwork:
    torch.manual_seed(0)
    return AlignedPairNetwork((4, 8, 12, 16))


def test_copies_are_half_of_what_is_drawn_and_kinds_come_by_the_root_of_their_number() -> None:
    draws = Draws([*kept(2, copy=True), *kept(36, copy=False), *kept(4, copy=False, kind="page")])
    drawn = draws.draw(3000, np.random.default_rng(0))
    assert np.mean([pair.copy for pair in drawn]) == pytest.approx(0.5, abs=0.04)
    others = [pair.kind for pair in drawn if not pair.copy]
    assert others.count("noise") / others.count("page") == pytest.approx(3, rel=0.2)
    with pytest.raises(ValueError, match="copies and others are needed to learn from, got 2 pairs"):
        Draws(kept(2, copy=True))


def test_a_batch_is_filled_up_with_what_is_not_shown() -> None:
    small, large = np.full((8, 8, 7), 255, np.uint8), np.full((10, 20, 7), 51, np.uint8)
    small[..., 6] = large[..., 6] = 1
    filled = batch([small, large])
    assert filled.shape == (2, 7, 16, 24)
    assert filled[0].sum() == 7 * 64
    assert filled[1, :6].max() == pytest.approx(0.2)
    assert filled[1, 6].sum() == 200


def test_a_network_learns_what_is_a_copy_and_a_stopped_run_goes_on_to_the_same(tmp_path: Path) -> None:
    pairs = [*kept(12, copy=True), *kept(12, copy=False)]
    whole, losses = train_aligned(network(), pairs, BUDGET, 3, state=tmp_path / "whole.pt")
    assert len(losses) == BUDGET.steps
    assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4])
    again, more = train_aligned(network(), pairs, BUDGET, 3)
    assert more == losses
    odds = odds_of(whole, pairs)
    assert odds[:12].min() > odds[12:].max()
    np.testing.assert_allclose(odds_of(again, pairs), odds)


def test_a_run_goes_on_from_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diptych_training.aligned.training.SAVE_EVERY", 5)
    pairs = [*kept(8, copy=True), *kept(8, copy=False)]
    _, losses = train_aligned(network(), pairs, BUDGET, 1)

    def stopped(steps):
        for step in steps:
            if step == 13:
                raise KeyboardInterrupt
            yield step

    with pytest.raises(KeyboardInterrupt):
        train_aligned(network(), pairs, BUDGET, 1, state=tmp_path / "state.pt", progress=stopped)
    seen = []
    _, resumed = train_aligned(
        network(), pairs, BUDGET, 1, state=tmp_path / "state.pt", progress=lambda steps: seen.append(steps) or steps
    )
    assert list(seen[0]) == list(range(10, BUDGET.steps))
    assert resumed == losses
