"""Decoding on several threads: Pillow lets go of the interpreter lock while it decodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from diptych_export.errors import PictureError

T = TypeVar("T")
R = TypeVar("R")


def each(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R | PictureError]:
    """`function` of every item, in order; where it raised PictureError, that error stands in the result's place."""

    def attempt(item: T) -> R | PictureError:
        try:
            return function(item)
        except PictureError as error:
            return error

    if threads < 2 or len(items) < 2:
        return [attempt(item) for item in items]
    pool = ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="diptych-decode")
    try:
        return list(pool.map(attempt, items))
    finally:
        # After Ctrl-C the rest of the batch must not be decoded first.
        pool.shutdown(wait=True, cancel_futures=True)
