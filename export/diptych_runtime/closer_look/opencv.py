"""OpenCV, imported when it is first needed and on one thread: pairs are what there are several of."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


@cache
def opencv() -> ModuleType:
    """The module `cv2`."""
    import cv2

    cv2.setNumThreads(1)
    return cv2
