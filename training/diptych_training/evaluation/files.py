"""Picture files that people bring: folders, the same as zip archives, and lists of paths of which some are missing."""

import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from diptych_training.errors import DataError

_NAMED = 3


@contextmanager
def as_folder(source: Path, wanted: Callable[[PurePosixPath], bool] = lambda name: True) -> Iterator[Path]:
    """The folder itself, or for a zip archive a temporary one with its `wanted` members, gone when the block ends."""
    if source.is_dir():
        yield source
        return
    if not zipfile.is_zipfile(source):
        what = "is no zip archive" if source.exists() else "does not exist"
        raise DataError(f"expected a folder or a zip archive, and {source} {what}")
    with tempfile.TemporaryDirectory(prefix="diptych-") as temporary, zipfile.ZipFile(source) as archive:
        members = (PurePosixPath(name) for name in archive.namelist() if not name.endswith("/"))
        # What a Mac adds to its archives looks like pictures and is none.
        kept = [str(name) for name in members if "__MACOSX" not in name.parts and wanted(name)]
        archive.extractall(temporary, kept)
        yield Path(temporary)


def require(files: Sequence[Path], what: str, hint: str) -> None:
    """Raise `DataError` where pictures are missing, with the first ones and their number; `hint` is the next step."""
    gone = [file for file in dict.fromkeys(files) if not file.is_file()]
    if gone:
        named = ", ".join(str(file) for file in gone[:_NAMED]) + (", ..." if len(gone) > _NAMED else "")
        raise DataError(f"{len(gone)} of {len(set(files))} {what} are not there: {named}; {hint}")


def captions(files: Iterable[Path], root: Path) -> list[str]:
    """Paths as people know them: below `root` where they are."""
    return [file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file) for file in files]
