"""Decoding on several threads: Pillow lets go of the interpreter lock while it decodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from diptych_runtime.errors import PictureError

T = TypeVar("T")
R = TypeVar("R")


def map_pictures(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R | PictureError]:
    """`function` of every item, in the caller's context; a PictureError stands in its result's place."""

    def attempt(item: T) -> R | PictureError:
        try:
            return function(item)
        except PictureError as error:
            # It may be kept for long, and the frames that it knows have the picture in them.
            error.__context__ = error.__cause__ = None
            return error.with_traceback(None)

    if threads < 2 or len(items) < 2:
        return [attempt(item) for item in items]
    pool = ThreadPoolExecutor(min(threads, len(items)), thread_name_prefix="diptych-decode")
    try:
        contexts = [copy_context() for _ in items]
        return list(pool.map(lambda context, item: context.run(attempt, item), contexts, items))
    finally:
        # After Ctrl-C the rest of the batch must not be decoded first.
        pool.shutdown(wait=True, cancel_futures=True)
