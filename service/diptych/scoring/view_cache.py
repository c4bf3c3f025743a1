"""A cache of the keypoints of pictures, which one closer look after the other uses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock

from diptych_runtime.closer_look.verification import View

BYTES = 128 * 1024 * 1024  # some 100 pictures


class ViewCache:
    """Views by the id of a picture, at most `most` bytes of them: those that were not asked for longest go first.

    Thread-safe. An id is that of a content, so that no view is ever out of date.
    """

    def __init__(self, most: int = BYTES) -> None:
        self.most = most
        self._views: OrderedDict[str, View] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get_views(
        self, ids: list[str], describe: Callable[[list[str]], Mapping[str, View | None]]
    ) -> dict[str, View | None]:
        """The views of pictures by id; `describe` gives those that are not held, None for a picture without a file."""
        with self._lock:
            found: dict[str, View | None] = {id: self._views[id] for id in ids if id in self._views}
            for id in found:
                self._views.move_to_end(id)
        if missing := [id for id in ids if id not in found]:
            made = describe(missing)
            found |= made
            with self._lock:
                for id, view in made.items():
                    if view is not None and id not in self._views:
                        self._views[id] = view
                        self._bytes += view.nbytes
                while self._bytes > self.most:
                    self._bytes -= self._views.popitem(last=False)[1].nbytes
        return found

    def clear(self) -> None:
        """Let go of all views."""
        with self._lock:
            self._views.clear()
            self._bytes = 0
