"""The executors of a job's parts: this process, several of them (`pool`), or the nodes of a Ray cluster (`ray`)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from diptych.batch.workers.tasks import WorkerConfig, clear_caches
from diptych.console import format_count
from diptych.errors import BatchError

MOST = 3

Work = Callable[[int], object]  # of a part's number
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

    def take_part(self) -> int:
        """Take the next part that waits."""
        return self._waiting.popleft()

    def requeue_lost(self, number: int, why: str) -> None:
        """Queue a part once more, because its worker was lost. Raises BatchError when that happens too often."""
        self._lost[number] += 1
        if self._lost[number] == MOST:
            lost = f"{self._describe(number)} could not be done: {MOST} workers in turn were lost over them"
            raise BatchError(f"{lost}, the last one {why}; look at these, or give the workers more memory")
        self.say(f"a worker was lost ({why}); {self._describe(number)} are done again")
        self._waiting.appendleft(number)


class Executor(Protocol):
    """An executor of parts: `Serial`, `Pool` or `Cluster`."""

    def run(self, work: Work, attempts: RetryQueue) -> Iterator[int]:
        """The number of each part as soon as it is done, in any order. Raises what the work raises, and BatchError."""
        ...


@dataclass(frozen=True)
class WorkerPool:
    """Workers that read pictures for a collection: the executor, each one's configuration, and who hears of losses."""

    engine: Executor
    config: WorkerConfig
    say: Say = lambda text: None

    def say_blind(self, count: int) -> None:
        """Say that this process could read so many files which no worker could."""
        if count:
            files = format_count(count, "picture")
            self.say(f"{files} could be read here and not by workers; does each of these see the folders?")


class Serial:
    """Does the parts in this process, one after the other, each with all threads."""

    def run(self, work: Work, attempts: RetryQueue) -> Iterator[int]:
        """The number of each part."""
        while attempts:
            number = attempts.take_part()
            work(number)
            yield number

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        clear_caches()
