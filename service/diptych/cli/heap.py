"""The memory that this process takes from the system, where glibc keeps it."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

# Of glibc's malloc.h: how many heaps there are, from which size on a block is a mapping of its own, and from which on
# the free end of a heap is given back.
_SETTINGS = {
    "MALLOC_ARENA_MAX": (-8, 1),
    "MALLOC_MMAP_THRESHOLD_": (-3, 32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": (-1, 64 * 2**20),
}


def share_one_heap() -> None:
    """Let all threads take memory from one heap of glibc's, before they begin, and let it keep freed memory, unless
    glibc's variables of the environment say otherwise.

    With a heap for each, what requests leave between the parts that stay is never given back: over 56,000 writes a
    service grew from 222 to 232 MB, and from 211 to 214 with one heap. What a closer look takes and frees would be
    given back and taken anew, page by page: 100,000 pages a search, a fifth of its time.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    for name, (setting, value) in _SETTINGS.items():
        # glibc itself takes no notice of an empty variable or of a word.
        said = os.environ.get(name, "").isdecimal() or name.lower().replace("malloc_", "malloc.").strip("_") in tunables
        if not said:
            with suppress(OSError, AttributeError):  # another C library
                ctypes.CDLL(None).mallopt(setting, value)
