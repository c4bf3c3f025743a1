"""A small pair network that learns characters and is measured in one shot."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from diptych_model import PairNetwork, Residual
from diptych_studies import one_shot
from diptych_studies.one_shot import (
    group_loss,
    measure_embedding,
    measure_network,
    teach_panel,
    train_and_measure,
)
from diptych_studies.variants import BASE
from diptych_training.data.characters import load_characters

SMALL = replace(BASE, pixels=16, width=12, embedding=8, encoder=Residual((8,), (1,)), blocks=1)


def test_the_loss_of_a_group_is_that_of_its_rows_columns_and_pairs() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.5, 1.0]])
    rows = -torch.log_softmax(logits, 1).diagonal().mean()
    columns = -torch.log_softmax(logits, 0).diagonal().mean()
    matches = torch.log1p(torch.exp(-torch.tensor([2.0, 1.0]))).mean()
    others = torch.log1p(torch.exp(torch.tensor([-1.0, 0.5]))).mean()
    torch.testing.assert_close(group_loss(logits), (rows + columns) / 2 + (matches + others) / 2)


@pytest.mark.parametrize("seam", ["closed", "pixels"])
def test_group_by_group_gradients_are_those_of_all_groups_at_once(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.autocast
    monkeypatch.setattr(torch, "autocast", lambda device, dtype: real(device, dtype, enabled=False))
    torch.manual_seed(0)
    network = PairNetwork(replace(SMALL, seam=seam)).double()
    a, b = torch.rand(2, 3, 4, 3, 16, 16, dtype=torch.float64)
    learnt = copy.deepcopy(network)
    one_shot._learn_groups(learnt, a, b)
    found = {name: p.grad for name, p in learnt.named_parameters() if p.grad is not None}
    left, right = a.repeat_interleave(4, 1).flatten(0, 1), b.repeat(1, 4, 1, 1, 1).flatten(0, 1)
    both = torch.cat([a, b]).flatten(0, 1)
    if seam == "pixels":
        logits = network(left, right)
        embeddings = network.eval().encode(both)[1]
    else:
        tokens, embeddings = network.encode(both)
        known = tokens.unflatten(0, (2, 3, 4))
        logits = network.relate(
            known[0].repeat_interleave(4, 1).flatten(0, 1), known[1].repeat(1, 4, 1, 1, 1).flatten(0, 1)
        )
    total = sum(group_loss(group) for group in logits.view(3, 4, 4)) / 3
    (total + one_shot._compute_contrast_loss(embeddings)).backward()
    assert len(found) == sum(p.requires_grad for p in network.parameters())
    for name, p in network.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(found[name], p.grad.to(found[name].dtype), rtol=1e-4, atol=1e-6)


def test_a_network_that_knows_the_answer_wins_every_trial_and_one_that_says_nothing_none(omniglot: Path) -> None:
    characters = load_characters(omniglot, "validation", 16)
    network = PairNetwork(SMALL)
    # Every drawing is its own perfect embedding of what it shows.
    known = torch.nn.functional.one_hot(torch.from_numpy(characters.character), 24).float()
    answers = iter(known.split(256))
    network.encode = lambda pictures: (None, next(answers))  # type: ignore[method-assign]
    assert measure_embedding(network, characters, 3) == [20, 20, 20]
    silent = PairNetwork(SMALL)
    for parameter in silent.pair.parameters():
        parameter.data.zero_()
    assert measure_network(silent, characters, 2) == [0, 0]


def test_a_trunk_that_knows_the_answer_wins_every_trial(omniglot: Path) -> None:
    characters = load_characters(omniglot, "validation", 16)
    network = PairNetwork(SMALL)
    shown = torch.from_numpy(characters.character).float().view(-1, 1, 1, 1)
    answers = iter(shown.split(256))
    network.encode = lambda pictures: (next(answers), None)  # type: ignore[method-assign]
    network.relate = lambda a, b: -(a - b).abs().flatten()  # type: ignore[method-assign]
    assert measure_network(network, characters, 2) == [20, 20]


@pytest.mark.parametrize("seam", ["closed", "pixels"])
def test_a_step_settles_the_stems_statistics_once_for_each_order(seam: str) -> None:
    network = PairNetwork(replace(SMALL, seam=seam))
    a, b = torch.rand(2, 3, 4, 3, 16, 16)
    one_shot._learn_groups(network, a, b)
    norms = [module for module in network.panel.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert norms
    assert {int(norm.num_batches_tracked) for norm in norms if norm.num_batches_tracked is not None} == {
        2 if seam == "pixels" else 1
    }


class _StoppedError(Exception):
    """The end of a training."""


def test_a_training_that_was_stopped_goes_on_to_the_same_numbers_and_leaves_nothing(
    omniglot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_shot, "SAVE_EVERY", 2)
    places, config = (str(omniglot), str(tmp_path)), SMALL.to_dict()
    teach_panel(*places, config=config, steps=1, rate=1e-3, episodes=1, seed=0)
    settings: dict[str, Any] = {"config": config, "steps": 5, "rate": 4e-3, "episodes": 1, "seed": 0}
    whole = train_and_measure(*places, **settings)

    steps, real = list[int](), one_shot._learn_groups

    def stopping(*given: object) -> float:
        steps.append(len(steps))
        if len(steps) == 4:
            raise _StoppedError
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(one_shot, "_learn_groups", stopping)
    with pytest.raises(_StoppedError):
        train_and_measure(*places, **settings)
    (state,) = tmp_path.glob("state-*.pt")
    another: dict[str, Any] = settings | {"rate": 1e-3}
    assert train_and_measure(*places, **another)["losses"] != whole["losses"]
    steps[:] = range(4)
    assert train_and_measure(*places, **settings) == whole
    assert len(steps) == 4 + 3, "two of the five steps were kept"
    assert not state.exists()
