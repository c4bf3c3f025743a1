"""The check of a command's output: never over its input, and never into a collection."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from diptych.collection.root import is_ours
from diptych.errors import OutputError
from diptych.pictures.walk import TRASH
from diptych.store.sqlite.schema import DATABASE


def check_output(output: str | Path, inputs: Iterable[str | Path] = ()) -> None:
    """Refuse an output that is one of the inputs, under whatever name, part of a collection or among files that
    `dedupe` put aside, with OutputError.

    Inputs that are not files, such as web addresses or -, are none that could be written over.
    """
    path = Path(output)
    if path.is_dir():
        raise OutputError(f"{path} is a folder; name a file in it")
    if TRASH in path.absolute().parts or TRASH in path.resolve().parts:
        raise OutputError(f"{path} is among what dedupe put aside; name another file")
    if is_ours(path) and (path.absolute().parent / DATABASE).exists():
        raise OutputError(f"{path} belongs to the collection {path.absolute().parent}; name another file")
    if not path.exists():
        return
    for one in map(Path, inputs):
        try:
            same = path.samefile(one)
        except OSError:
            continue
        if same:
            raise OutputError(f"{path} is {one}, which is read here; name another file, nothing was written")
