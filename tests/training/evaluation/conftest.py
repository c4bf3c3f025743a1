"""Who is measured in these tests: a small artifact, and a control that knows a picture by its mean colour."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from diptych_runtime.decoder import open_picture
from diptych_runtime.runtime import Runtime
from diptych_training.evaluation.stages import Entrants


class MeanColour:
    """A control for tests; `verifies` says whether it takes the first stage's candidates or ranks by itself."""

    def __init__(self, name: str = "colour", *, verifies: bool = False) -> None:
        self.name, self.verifies = name, verifies
        self.asked: list[int] = []

    def describe(self, path: Path) -> np.ndarray:
        return np.asarray(open_picture(path), float).mean((0, 1))

    def scores(self, query: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
        self.asked.append(len(references))
        return -np.abs(np.stack(references) - query).sum(1)


@pytest.fixture(scope="session")
def runtime(artifact: Path) -> Runtime:
    return Runtime.open(artifact, threads=1)


@pytest.fixture
def entrants(runtime: Runtime) -> Entrants:
    return Entrants(runtime)


@pytest.fixture
def colour() -> Callable[..., MeanColour]:
    return MeanColour


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    """A folder of fourteen photos, 00.jpg to 13.jpg."""
    folder = tmp_path_factory.mktemp("photos")
    for i in range(14):
        (folder / f"{i:02d}.jpg").write_bytes(photo_bytes(i, (80, 60)))
    return folder
