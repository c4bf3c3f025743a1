"""The executors of a job's parts: this process, several of them, or the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from diptych.batch.workers.retries import RetryQueue
from diptych.batch.workers.tasks import Work, clear_caches


class Executor(Protocol):
    """An executor of parts: `Serial`, `Pool` or `Cluster`."""

    def run(self, work: Work, attempts: RetryQueue) -> Iterator[int]:
        """The number of each part as soon as it is done, in any order. Raises what the work raises, and BatchError."""
        ...


class Serial:
    """Does the parts in this process, one after the other, each with all threads."""

    def run(self, work: Work, attempts: RetryQueue) -> Iterator[int]:
        """The number of each part."""
        while attempts:
            number = attempts.take()
            work(number)
            yield number

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        clear_caches()
