"""Who is measured in these tests: a small artifact, on a folder of photos."""

from pathlib import Path

import pytest

from diptych_runtime.runtime import Runtime
from diptych_training.evaluation.stages import Entrants


@pytest.fixture(scope="session")
def runtime(artifact: Path) -> Runtime:
    return Runtime.open(artifact, threads=1)


@pytest.fixture
def entrants(runtime: Runtime) -> Entrants:
    return Entrants(runtime)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    """A folder of fourteen photos, 00.jpg to 13.jpg."""
    folder = tmp_path_factory.mktemp("photos")
    for i in range(14):
        (folder / f"{i:02d}.jpg").write_bytes(photo_bytes(i, (80, 60)))
    return folder
