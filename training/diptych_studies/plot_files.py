"""Files that plots are drawn into, checked before anything is measured for them."""

from collections.abc import Sequence
from pathlib import Path

from diptych_training.errors import DataError

FORMATS = (".png", ".svg", ".pdf")


def check_plot_path(path: Path, formats: Sequence[str]) -> None:
    """Raise `DataError` where the name is of none of the formats, or its folder is not there."""
    if path.suffix.lower() not in formats:
        raise DataError(f"the name of a plot ends in {', '.join(formats)}; got {path.name}")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {path.parent} to write {path.name} to")


def check_plot(path: Path) -> None:
    """Raise `DataError` where no plot could be written there, before anything has been measured for it."""
    check_plot_path(path, FORMATS)
    try:
        import matplotlib.figure  # noqa: F401 - whether it is there
    except ImportError as error:
        raise DataError(f"a plot needs `pip install 'diptych[train]'`: {error}") from None
