"""Work that says how much of it was done at the same time."""

import threading
import time


class AtOnce:
    """A call that takes a hundredth of a second: there were so many `calls`, and `most` of them ran at once."""

    def __init__(self) -> None:
        self.calls = self.most = self._now = 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.calls += 1
            self._now += 1
            self.most = max(self.most, self._now)
        time.sleep(0.01)
        with self._lock:
            self._now -= 1
