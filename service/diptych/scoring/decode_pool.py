"""Decoding strangers' pictures in processes: one that hangs, eats memory or crashes costs itself and nobody else.

Each process has its own pipe and one caller at a time. Pools whose processes share a queue and its locks, as those of
`concurrent.futures`, are held up or lost when one is killed at the wrong moment.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, LifoQueue
from threading import Thread
from traceback import format_exc
from typing import TYPE_CHECKING, Any, TypeVar

from diptych.errors import DeadlineError, DecoderEndedError, DecoderStartError, DecodingMemoryError, DecodingTimeError
from diptych.pictures.sources import fetch_settings
from diptych.scoring.deadline import current_deadline
from diptych.scoring.fork_server import CHILDREN, LOST, start_process
from diptych.scoring.threads import map_pictures
from diptych_runtime.errors import PictureError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

R = TypeVar("R")

_OUT_OF_MEMORY = 77
# A process is replaced after so many pictures, so that what a decoder leaks does not add up to its bound.
_LIFE = 1000
_AT_A_TIME = 4  # pictures that a process is handed: with one, it would wait for the next as long as it works
# Seconds beyond the time of a picture, whose own timer would have ended it, after which a silent process is replaced.
_GRACE = 2.0
_START, _END = 30.0, 5.0  # seconds that a process has to start, and to end once it was told to
# Seconds before each attempt to start a process anew: the server that it is forked from may take a moment to be gone.
_STARTS = (0.0, 0.1, 0.2, 0.4, 0.8)

logger = logging.getLogger(__name__)


class ThreadDecoder:
    """Decodes one's own pictures in this process. `answered` is when a call was answered last (monotonic time)."""

    def __init__(self, threads: int) -> None:
        self.threads, self.answered = threads, 0.0

    def run(self, call: Callable[[], R], /) -> R:
        """The call's value, computed in the thread that asks."""
        value = call()
        self.answered = time.monotonic()
        return value

    def run_all(self, calls: Sequence[Callable[[], R]], /) -> list[R | PictureError]:
        """The values of several calls, in order; a PictureError stands in its result's place."""
        return map_pictures(lambda call: call(), calls, self.threads)


class DecodePool:
    """Processes that decode: `with DecodePool(2) as workers: workers.run(partial(open_picture, data, name="query"))`.

    A picture has `seconds` from the moment its process begins it, and `memory` bytes of address space beyond what the
    process began with (on Linux alone). One that takes more, or that ends its process, gets a PictureError of its own,
    which calls it by the argument `name`. Calls and their values must pickle. The caller gets a DeadlineError when its
    `Deadline` has passed or when a process says nothing beyond its time; that process is killed and replaced. A script
    that makes a pool needs the usual `if __name__ == "__main__":`.
    """

    def __init__(self, processes: int, *, seconds: float = 10.0, memory: int = 2 * 1024**3) -> None:
        """Start the processes and wait until they can work. Raises OSError if one cannot."""
        if processes < 1 or not seconds > 0 or memory < 1:
            raise ValueError(
                "expected processes >= 1, seconds > 0 and memory >= 1 byte, "
                f"got processes={processes}, seconds={seconds} and memory={memory}"
            )
        self.processes, self.seconds, self.memory, self.answered = processes, seconds, memory, 0.0
        # The last one used is the next: its memory is warm. An error stands for one that could not be started.
        self._idle: LifoQueue[_Worker | OSError] = LifoQueue()
        self._closed = False
        for _ in range(processes):
            self._idle.put(_Worker(seconds, memory))

    def run(self, call: Callable[[], R], /) -> R:
        """The call's value, computed in a process of the pool. Raises its error."""
        (answer,) = self._ask_worker([call])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run_all(self, calls: Sequence[Callable[[], R]], /) -> list[R | PictureError]:
        """The values of several calls, in order; a PictureError stands in its result's place."""
        step = max(1, min(_AT_A_TIME, len(calls) // self.processes))
        parts = [calls[start : start + step] for start in range(0, len(calls), step)]
        answered: list[Any] = map_pictures(self._run_part, parts, self.processes)
        answers = [answer for part in answered for answer in part]
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, PictureError):
                raise answer
        return answers

    def _run_part(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        answers = []
        while len(answers) < len(calls):
            answers += self._ask_worker(calls[len(answers) :])
        return answers

    def _ask_worker(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """The values or errors of the calls, in order, up to and with the first that ended its process."""
        current_deadline().check("this picture")
        worker = self._take_worker()
        kept = False
        try:
            answers = worker.ask(calls)
            self.answered = time.monotonic()
            kept = not worker.pipe.closed
        finally:
            # Whoever was left in the middle is not kept: it would answer the next picture with this one.
            if kept:
                self._idle.put(worker)
            else:
                self._replace_worker(worker)
        return answers

    def _take_worker(self) -> _Worker:
        """A process that waits for a picture. Raises DeadlineError if there is none in time, and DecoderStartError."""
        while True:
            left = current_deadline().at - time.monotonic()
            try:
                worker = self._idle.get(timeout=None if math.isinf(left) else max(left, 0.0))
            except Empty:
                raise DeadlineError("no decoding process was free in time; try again later") from None
            if self._closed:
                self._idle.put(worker)
                raise RuntimeError("the pool of decoding processes is closed")
            if isinstance(worker, _Worker) and not worker.is_spent():
                return worker
            self._replace_worker(worker)
            if isinstance(worker, OSError):
                raise DecoderStartError(f"{worker}; try again later") from worker

    def _replace_worker(self, worker: _Worker | OSError) -> None:
        """Start another process in the place of one, beside the caller, who may have no time for it."""
        Thread(target=self._put_another, args=(worker,), name="diptych-decode-start", daemon=True).start()

    def _put_another(self, worker: _Worker | OSError) -> None:
        if isinstance(worker, _Worker):
            with suppress(OSError):  # it has ended already
                worker.end(kill=True)
        failed = OSError()
        for pause in _STARTS:
            time.sleep(pause)
            try:
                self._idle.put(_Worker(self.seconds, self.memory))
                return
            except OSError as error:
                failed = error
        logger.error("no decoding process could be started: %s", failed)
        self._idle.put(failed)

    def close(self) -> None:
        """End the processes; calls in progress are waited for, waiting calls are refused."""
        self._closed = True
        for worker in [self._idle.get() for _ in range(self.processes)]:
            if isinstance(worker, _Worker):
                worker.end()
            self._idle.put(OSError("closed"))

    def __enter__(self) -> DecodePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Worker:
    """A process and the near end of its pipe."""

    def __init__(self, seconds: float, memory: int) -> None:
        self.seconds, self.memory, self.asked = seconds, memory, 0
        self.process, self.pipe = start_process(_answer_calls, (seconds, memory), name="diptych-decode")
        try:
            if not self.pipe.poll(_START):
                self.process.kill()
            self.pipe.recv()
        except (EOFError, OSError):
            raise OSError(f"a decoding process ended before it could begin ({describe_exit(self.end())})") from None

    def is_spent(self) -> bool:
        """True if this worker must be replaced: it took `_LIFE` calls, or died, by which its pipe is readable."""
        return self.pipe.closed or self.asked >= _LIFE or self.pipe.poll()

    def ask(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """The values or errors of the calls, in order, up to and with the first that ended the process."""
        self.asked += len(calls)
        answers: list[Any] = []
        try:
            self._set_timeouts()
            self.pipe.send(calls)
            for _ in calls:
                self._set_timeouts()
                answers.append(self.pipe.recv())
        except BlockingIOError:
            self.process.kill()
            self.pipe.close()
            current_deadline().check("this picture")
            error = DeadlineError(f"a decoding process said nothing for {self.seconds + _GRACE:g} s; try again")
            logger.warning("%s", error)
            raise error from None
        except (EOFError, OSError):
            options = getattr(calls[len(answers)], "keywords", {})
            answers.append(self._make_error(options.get("name") or "the picture"))
            logger.warning("%s", answers[-1])
        return answers

    def _set_timeouts(self) -> None:
        """Let reading and writing raise BlockingIOError after the time of a picture, or that of the caller."""
        left = min(self.seconds + _GRACE, max(current_deadline().at - time.monotonic(), 0.001))
        bound = struct.pack("@ll", int(left), int(left % 1 * 1e6))
        with socket.socket(fileno=os.dup(self.pipe.fileno())) as pipe:
            pipe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
            pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, bound)

    def end(self, *, kill: bool = False) -> int | None:
        """Close the pipe, by which the process ends, or kill it; the exit status (negative: the signal)."""
        self.pipe.close()
        with CHILDREN:
            if not kill:
                self.process.join(_END)
            if self.process.is_alive():
                self.process.kill()
                self.process.join(_END)
            return self.process.exitcode

    def _make_error(self, name: str) -> PictureError:
        status = self.end()
        if status == -signal.SIGALRM:
            return DecodingTimeError(
                f"{name} took more than {self.seconds:g} s to decode and was stopped; scale it down"
            )
        if status == _OUT_OF_MEMORY:
            memory = f"{self.memory / 2**20:,.0f} MiB"
            return DecodingMemoryError(f"{name} takes more than {memory} of memory to decode; scale it down first")
        # The kernel kills where the machine's memory, or that of a container, runs out; a decoder does not kill itself.
        remedy = "save it anew with another program"
        if status in (-signal.SIGKILL, LOST):
            remedy = "as where the machine runs out of memory; try again, or scale it down first"
        return DecoderEndedError(f"{name} cannot be decoded: its process ended ({describe_exit(status)}); {remedy}")


def _answer_calls(pipe: Connection, seconds: float, memory: int) -> None:
    """The life of a worker, which ends when nobody can ask any more, or by a picture, whose time the kernel keeps."""
    # A group of its own: where a group with a stopped process loses its shell, the kernel sends SIGHUP to all of it,
    # and that would be the service too.
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT})
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Once that much was freed, glibc keeps what small pictures need, and does not fetch it anew for each.
    bytearray(16 * 2**20)
    _limit_memory(memory)
    try:
        pipe.send("ready")
        while True:
            for call in pipe.recv():
                signal.setitimer(signal.ITIMER_REAL, seconds)
                answer = _try_call(call)
                signal.setitimer(signal.ITIMER_REAL, 0)
                pipe.send(answer)
    except (EOFError, OSError):  # the pipe's, for a call's are answers
        return
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)


def _try_call(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except MemoryError:
        raise
    except PictureError as error:
        return error
    except Exception as error:
        error.add_note(format_exc())  # a traceback does not travel
        return error


def _limit_memory(memory: int) -> None:
    """Bound this process's address space, and let it be the one the kernel kills where memory runs out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = mapped + memory if hard == resource.RLIM_INFINITY else min(mapped + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with suppress(OSError):  # some containers do not let it be written
        Path("/proc/self/oom_score_adj").write_text("1000")


def describe_exit(status: int | None) -> str:
    """An exit status for people, by the name of the signal if it was one."""
    if status == LOST:
        return "and so did the one that it was forked from"
    return f"exit status {status}" if status is None or status >= 0 else signal.Signals(-status).name


Decoder = ThreadDecoder | DecodePool


def make_decoder(urls: bool, threads: int) -> Decoder:
    """The decoder of pictures: processes with the bounds of the service where some may be fetched, else threads."""
    # A worker of a batch is a process already, which may have no others.
    settings = None if multiprocessing.current_process().daemon else fetch_settings(urls)
    if settings is None:
        return ThreadDecoder(threads)
    return DecodePool(threads, seconds=settings.decode_seconds, memory=settings.decode_memory)
