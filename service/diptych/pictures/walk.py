"""The one way in which every command goes through folders of pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator

from diptych_runtime.decoder import SUFFIXES

TRASH = ".diptych-trash"  # where `diptych dedupe --delete` puts files aside


def picture_files(
    folder: str | os.PathLike[str],
    unlisted: Callable[[OSError], object],
    endings: Collection[str] = SUFFIXES,
) -> Iterator[str]:
    """The paths of the files with these endings below a folder, folder by folder in alphabetical order.

    Links to folders are not entered, and neither is what `diptych dedupe` put aside. `unlisted` is told of each folder
    that cannot be listed; its error has the path as `filename`.
    """
    for place, subfolders, names in os.walk(folder, onerror=unlisted):
        subfolders[:] = sorted(name for name in subfolders if name != TRASH)
        for name in sorted(names):
            # A Path for each of a million files takes seconds.
            if os.path.splitext(name)[1].lower() in endings:  # noqa: PTH122
                yield os.path.join(place, name)  # noqa: PTH118
