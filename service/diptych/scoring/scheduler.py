"""The scheduler: the pairs of everyone who asks, scored in common chunks, each request in its turn."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from diptych.errors import DeadlineError, OverloadedError
from diptych.scoring.deadline import current_deadline
from diptych_runtime.runtime import Runtime

CAPACITY = 50_000
_CHUNKS = 4  # of the runtime, that a thread takes at once: what it does between two of them, the others wait for
_STEP = 0.05  # seconds after which a waiting caller looks at its clock, and at Ctrl-C


class Watchdog:
    """The time since the oldest computation in progress began: `with running: ...`, not nested in a thread."""

    def __init__(self) -> None:
        self._began = dict[int, float]()

    def __enter__(self) -> Watchdog:
        self._began[threading.get_ident()] = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        del self._began[threading.get_ident()]

    def longest_running(self) -> float:
        """Seconds since the longest-running thread began; 0.0 when none runs."""
        began = list(self._began.values())
        return time.monotonic() - min(began) if began else 0.0


@dataclass(eq=False)
class _Job:
    """The pairs of one call. `taken` of them were handed out, `missing` are not back yet."""

    tokens_a: np.ndarray
    tokens_b: np.ndarray
    logits: np.ndarray
    missing: int
    taken: int = 0
    asked: float = field(default_factory=time.monotonic)
    error: Exception | None = None
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def pending(self) -> int:
        """Pairs that are not handed out yet."""
        return len(self.logits) - self.taken

    def end(self, error: Exception | None = None) -> None:
        """Wake up who waits."""
        self.error = error
        self.done.set()


class PairScheduler:
    """Scores pairs with a runtime, in as many threads as it has workers. May be used from any number of threads.

    Requests take turns of one chunk, and small ones share a chunk, which changes no bits. At most `capacity` pairs
    wait; a request of more is taken when nothing else waits.
    """

    def __init__(self, runtime: Runtime, *, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 pair, got {capacity}")
        self.runtime, self.capacity = runtime, capacity
        self.waited: Callable[[float], None] = lambda seconds: None  # told how long each request waited for its turn
        self._jobs: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._working = 0
        self._in_flight = 0
        self._chunks = Watchdog()
        self._seconds = 0.0  # of one pair on one thread, a running mean

    @property
    def waiting(self) -> int:
        """Pairs that no worker has begun with."""
        with self._lock:
            return sum(job.pending for job in self._jobs)

    @property
    def in_flight(self) -> int:
        """Pairs that are being looked at."""
        return self._in_flight

    def longest_running(self) -> float:
        """Seconds since the longest-running chunk began; 0.0 when none runs."""
        return self._chunks.longest_running()

    def logits(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Raw scores float32 (P, Q), as `Runtime.logits_on_this_thread`; one side may have one row for many.

        Waits its turn until the `Deadline`. Raises DeadlineError when that has passed, OverloadedError when too many
        pairs wait already; either way, and on Ctrl-C, the rest is never computed.
        """
        tokens_a, tokens_b = self.runtime.broadcast_pairs(tokens_a, tokens_b)
        deadline = current_deadline()
        logits = np.empty((len(tokens_a), len(self.runtime.questions)), np.float32)
        job = _Job(tokens_a, tokens_b, logits, len(tokens_a))
        if not len(tokens_a):
            return job.logits
        self._admit_job(job)
        try:
            while not job.done.wait(min(_STEP, max(0.0, deadline.at - time.monotonic()))):
                if time.monotonic() >= deadline.at:
                    left = f"{job.missing:,} of {len(job.logits):,} pairs"
                    raise DeadlineError(f"{left} were not scored in the time given; ask for fewer, or allow more time")
                deadline.check("these pairs")
        finally:
            with self._lock:
                if job in self._jobs:
                    self._jobs.remove(job)
        if job.error is not None:
            raise job.error
        return job.logits

    def _admit_job(self, job: _Job) -> None:
        with self._lock:
            waiting = sum(other.pending for other in self._jobs)
            if waiting and waiting + job.pending > self.capacity:
                seconds = max(1.0, waiting * self._seconds / self.runtime.workers)
                full = f"{waiting:,} pairs are waiting, and with {job.pending:,} more they are over {self.capacity:,}"
                raise OverloadedError(f"{full}; try again in {seconds:.0f} s", seconds=seconds)
            self._jobs.append(job)
            # Threads live as long as there is work: nothing has to be closed. None is a daemon: as it comes back from
            # ONNX Runtime while the interpreter ends, Python would end it, and that aborts the process.
            chunks = -(-(waiting + job.pending) // self.runtime.pair_chunk)
            for _ in range(min(self.runtime.workers, self._working + chunks) - self._working):
                self._working += 1
                threading.Thread(target=self._score_chunks, name="diptych-pairs").start()

    def _score_chunks(self) -> None:
        while pieces := self._take_pieces():
            began = time.perf_counter()
            try:
                with self._chunks:
                    logits = self.runtime.logits_on_this_thread(
                        np.concatenate([job.tokens_a[rows] for job, rows in pieces]),
                        np.concatenate([job.tokens_b[rows] for job, rows in pieces]),
                    )
            except Exception as error:  # whatever it is, those who wait must hear of it
                for job, _ in pieces:
                    job.end(error)
                continue
            finally:
                with self._lock:
                    self._in_flight -= sum(rows.stop - rows.start for _, rows in pieces)
            self._hand_out_logits(pieces, logits, time.perf_counter() - began)

    def _take_pieces(self) -> list[tuple[_Job, slice]]:
        """The next pairs, from as many requests as it takes; empty when the thread is to end."""
        with self._lock:
            chunk = self.runtime.pair_chunk
            # Less and less towards the end, so that all threads end together.
            chunks = -(-sum(job.pending for job in self._jobs) // (2 * chunk * self.runtime.workers))
            pieces = list(self._cut_pieces(chunk * min(chunks, _CHUNKS)))
            if not pieces:
                self._working -= 1
            now = time.monotonic()
            for job, rows in pieces:
                self._in_flight += rows.stop - rows.start
                if not rows.start:
                    self.waited(now - job.asked)
            return pieces

    def _cut_pieces(self, room: int) -> Iterator[tuple[_Job, slice]]:
        while room and self._jobs:
            job = self._jobs.popleft()
            if job.error is not None:
                continue
            rows = slice(job.taken, job.taken + min(room, job.pending, self.runtime.pair_chunk))
            job.taken = rows.stop
            room -= rows.stop - rows.start
            if job.pending:
                self._jobs.append(job)
            yield job, rows

    def _hand_out_logits(self, pieces: list[tuple[_Job, slice]], logits: np.ndarray, seconds: float) -> None:
        with self._lock:
            each = seconds / len(logits)
            self._seconds = 0.9 * self._seconds + 0.1 * each if self._seconds else each
            start = 0
            for job, rows in pieces:
                count = rows.stop - rows.start
                job.logits[rows] = logits[start : start + count]
                start += count
                job.missing -= count
                if not job.missing:
                    job.end()
