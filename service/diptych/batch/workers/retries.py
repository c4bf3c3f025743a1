"""Which parts are still to be done, and which of them have cost a worker already."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable

from diptych.errors import BatchError

MOST = 3

Say = Callable[[str], object]
Describe = Callable[[int], str]  # the rows of a part, for people


class RetryQueue:
    """Numbers of parts to hand out, those first that were handed out in vain."""

    def __init__(self, numbers: Iterable[int], describe: Describe, say: Say) -> None:
        self._waiting = deque(numbers)
        self._lost: Counter[int] = Counter()
        self._describe, self.say = describe, say

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> int:
        """The next part."""
        return self._waiting.popleft()

    def lost(self, number: int, why: str) -> None:
        """Queue a part as the next one, because its worker was lost. Raises BatchError when that happens too often."""
        self._lost[number] += 1
        if self._lost[number] == MOST:
            raise BatchError(
                f"{self._describe(number)} could not be done: {MOST} workers in turn were lost over them, the last one "
                f"{why}; look at these, or give the workers more memory"
            )
        self.say(f"a worker was lost ({why}); {self._describe(number)} are done again")
        self._waiting.appendleft(number)
