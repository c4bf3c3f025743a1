"""The folder of a run: begun once, resumed with the recipe that it was begun with."""

import fcntl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from diptych.console import Console
from diptych_training.errors import DataError

RECIPE, LOCK = "recipe.toml", "writer.lock"


def require_begun(file: Path, begun: bool) -> None:
    """Raise `DataError` where a run has the file by which it is known and is to be begun, or is to be resumed and has
    none.
    """
    if file.exists() != begun:
        state = "has no run to resume" if begun else "has a run already: add --resume or name another"
        raise DataError(f"{file.parent} {state}")


@contextmanager
def begun(directory: Path, recipe: str, *, resume: bool) -> Iterator[None]:
    """Write the resolved recipe into the folder of a run, made if there is none, and keep other processes from training
    there meanwhile; of a run that is resumed it must be the recipe that is there. Raises `DataError`.
    """
    file = directory / RECIPE
    if resume and file.read_text() != recipe:
        raise DataError(f"{directory} was begun with another recipe; resume with {file}, or name another")
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        file.write_text(recipe)
        yield


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes from training in the folder of a run. Raises `DataError` where one does."""
    with (directory / LOCK).open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"another process is training in {directory}: wait for it or stop it, or name another directory"
            ) from None
        yield


def counted(console: Console, steps: range) -> Iterable[int]:
    """The steps that are left of a training, behind a bar that has those before them too."""
    return console.progress(steps, total=steps.stop, unit="step", desc="training", initial=steps.start)
