"""What tests of endurance share beside what all tests do."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def nobodys_store(data_home: Path) -> None:
    """No program meets the store of whoever runs it."""
