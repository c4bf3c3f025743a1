"""The folder of a run: begun once, resumed with the recipe that it was begun with."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from diptych_training.errors import DataError

RECIPE = "recipe.toml"


def require_begun(file: Path, begun: bool) -> None:
    """Raise `DataError` where a run has the file by which it is known and is to be begun, or is to be resumed and has
    none.
    """
    if file.exists() != begun:
        state = "has no run to resume" if begun else "has a run already: add --resume or name another"
        raise DataError(f"{file.parent} {state}")


def begin(directory: Path, recipe: str, *, resume: bool) -> None:
    """Write the resolved recipe into the folder of a run, made if there is none; of one that is resumed it must be the
    one that is there. Raises `DataError`.
    """
    file = directory / RECIPE
    if resume and file.read_text() != recipe:
        raise DataError(f"{directory} was begun with another recipe; resume with {file}, or name another")
    directory.mkdir(parents=True, exist_ok=True)
    file.write_text(recipe)


class Bar(Protocol):
    """A bar that is told how much more is over."""

    def update(self, n: int, /) -> object:
        """So much more."""
        ...


def counted(bar: Bar, steps: Iterable[int]) -> Iterator[int]:
    """The steps, of which the bar shows those that are over."""
    for step in steps:
        yield step
        bar.update(1)
