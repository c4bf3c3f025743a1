"""Parts done by several processes of this machine, any of which may be killed at any moment.

Each process has its own pipe: pools that share a queue are held up where one is killed at the wrong moment.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait

from diptych.batch.workers.executor import RetryQueue, Work
from diptych.errors import BatchError
from diptych.scoring.decode_pool import describe_exit
from diptych.scoring.fork_server import safe_path, sigint_blocked


class Pool:
    """`with Pool(2) as pool: for number in pool.run(work, attempts): ...`; a process is replaced when it is lost."""

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}")
        self.processes = processes
        self._workers: set[_Worker] = set()

    def run(self, work: Work, attempts: RetryQueue) -> Iterator[int]:
        """The number of each part as soon as it is done. Raises what the work raises, and BatchError."""
        busy: dict[Connection, tuple[_Worker, int]] = {}
        idle = list(self._workers)
        while attempts or busy:
            while attempts and len(busy) < self.processes:
                worker, number = idle.pop() if idle else _Worker(), attempts.take_part()
                busy[worker.pipe] = worker, number
                self._workers.add(worker)
                worker.send_part(work, number)
            for pipe in wait(list(busy)):
                worker, number = busy.pop(pipe)  # pyright: ignore[reportArgumentType] - of these connections alone
                try:
                    error = worker.receive_error()
                except (EOFError, OSError):
                    self._workers.remove(worker)
                    attempts.requeue_lost(number, describe_exit(worker.end_process()))
                    continue
                if error is not None:
                    raise error
                idle.append(worker)
                yield number

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()  # what it was at is written under another name until it is whole
        for worker in self._workers:
            worker.end_process()
        self._workers.clear()


class _Worker:
    """A process and the near end of its pipe."""

    def __init__(self) -> None:
        # Not forked: this process may have threads, and the server that decoders are forked from is for decoding alone.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve_parts, args=(theirs,), name="diptych-part", daemon=True)
        with safe_path(), sigint_blocked():
            self.process.start()
        theirs.close()

    def send_part(self, work: Work, number: int) -> None:
        """Send a part to the worker for it to do."""
        try:
            self.pipe.send((work, number))
        except OSError:
            return  # it is lost, which `receive_error` will say

    def receive_error(self) -> Exception | None:
        """Receive the error that the work raised, or None. Raises EOFError or OSError if the process ended."""
        return self.pipe.recv()

    def end_process(self) -> int | None:
        """End the process by closing its pipe; returns the exit status (negative: the signal)."""
        self.pipe.close()
        self.process.join(5)
        return self.process.exitcode


def _serve_parts(pipe: Connection) -> None:
    """Do the parts that come through the pipe, until it is closed."""
    try:
        while True:
            work, number = pipe.recv()
            pipe.send(_attempt_work(work, number))
    except (EOFError, OSError):
        return


def _attempt_work(work: Work, number: int) -> Exception | None:
    try:
        work(number)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return BatchError(f"{type(error).__name__}: {error}")
        return error
    return None
