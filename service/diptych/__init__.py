"""Diptych scores how alike two images are by looking at both at once.

`from diptych import Scorer, Collection, find_duplicates`; all are imported on first use, so that
`diptych --help` stays quick.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # without typing, whose import is most of the time in which Ctrl-C would print a traceback
if TYPE_CHECKING:
    from typing import Any

    from diptych.collection.collection import Collection
    from diptych.dedupe.folders import find_duplicates
    from diptych.scoring.scorer import Scorer

    __version__: str

__all__ = ["Collection", "Scorer", "__version__", "find_duplicates"]

_HOMES = {
    "Scorer": "diptych.scoring.scorer",
    "Collection": "diptych.collection.collection",
    "find_duplicates": "diptych.dedupe.folders",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("diptych")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
