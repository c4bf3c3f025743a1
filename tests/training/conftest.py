"""Small archives in the layout of the real ones, drawn from seeds."""

from pathlib import Path

import pytest
from archives import write_archives, write_omniglot


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    """A folder with clothing.zip, flowers.zip, goods.zip and grocery.zip of drawn pictures."""
    folder = tmp_path_factory.mktemp("archives")
    write_archives(folder, photo_bytes)
    return folder


@pytest.fixture(scope="session")
def omniglot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with omniglot.zip: alphabets of 21 and 3 characters, each drawn by 4 hands, in both splits."""
    folder = tmp_path_factory.mktemp("omniglot")
    write_omniglot(folder)
    return folder
