"""Tasks on the small archives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diptych_training.data.archives import Archives
from diptych_training.tasks import OpenTask, Part, Source, task_from


@pytest.fixture(scope="session")
def opened(archives: Path, omniglot: Path) -> Callable[..., OpenTask]:
    """Open a task by its kind and settings, for panels of 16 pixels."""

    def open_task(kind: str, **settings: Any) -> OpenTask:
        folder = omniglot if kind == "character" else archives
        return task_from({"kind": kind} | settings).open(Source(Archives(22, folder), 16, 0, torch.device("cpu")))

    return open_task


@pytest.fixture(scope="session")
def drawn() -> Callable[..., Part]:
    """Draw a task's part of the step of that number."""

    def draw(task: OpenTask, number: int = 0, fill: float = 1.0) -> Part:
        return task.draw_part(np.random.default_rng(number), torch.Generator().manual_seed(number), fill)

    return draw
