from pathlib import Path

import numpy as np
import pytest
import torch

from diptych_training.augment import draw_sprites
from diptych_training.photos import list_photos, load_photos
from diptych_training.recipe import Stage
from diptych_training.tasks import Tasks

STAGE = Stage(16, 1, copies=16, shots=5, sides=3)


@pytest.fixture(scope="module")
def tasks(archives: Path) -> Tasks:
    rows = list_photos(archives, ("clothing", "flowers", "goods", "grocery"))
    return Tasks(load_photos(archives, rows, 22), draw_sprites(8, 0), seed=0)


def test_the_same_step_draws_the_same_pictures_and_another_step_others(tasks: Tasks) -> None:
    assert torch.equal(tasks.draw(3, STAGE, None).pictures, tasks.draw(3, STAGE, None).pictures)
    assert not torch.equal(tasks.draw(3, STAGE, None).pictures, tasks.draw(4, STAGE, None).pictures)


def test_every_query_has_a_match_and_a_rival_and_no_pair_is_both(tasks: Tasks) -> None:
    drawn = tasks.draw(0, STAGE, None)
    assert len(drawn.match) == 16 + 5 + 3
    assert len(drawn.pictures) == sum(drawn.match.shape)
    assert drawn.match.any(1).all()
    assert drawn.rival.any(1).all()
    assert not (drawn.match & drawn.rival).any()


def test_tasks_do_not_mix(tasks: Tasks) -> None:
    drawn = tasks.draw(0, STAGE, None)
    known = drawn.match | drawn.rival
    assert not known[:16, 16:].any()
    assert not known[16:, :16].any()


def test_photos_of_one_subject_are_no_rivals(tasks: Tasks) -> None:
    drawn = tasks.draw(1, Stage(16, 1, copies=len(tasks.copied), shots=0, sides=0), None)
    assert len(set(tasks.subject[tasks.copied])) < len(tasks.copied)
    unknown = ~(drawn.match | drawn.rival)
    assert unknown.any()
    assert not unknown.diagonal().any()


def test_mined_neighbours_come_together(tasks: Tasks) -> None:
    count = len(tasks.copied)
    neighbours = np.stack([np.roll(np.arange(count), -shift) for shift in range(1, 9)], 1)
    drawn = tasks.draw(2, Stage(16, 1, copies=8, shots=0, sides=0), neighbours)
    assert len(drawn.match) == 8


def test_without_shop_photos_the_copy_task_stands_alone(archives: Path) -> None:
    rows = list_photos(archives, ("clothing",))
    alone = Tasks(load_photos(archives, rows, 22), draw_sprites(8, 0), seed=0)
    assert len(alone.draw(0, STAGE, None).match) == 16
