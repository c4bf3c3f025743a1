"""Decoding processes that are stopped from outside, as by SIGSTOP, swap or a dead disk."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from waiting import alive, until

from diptych.errors import DeadlineError, DecoderEndedError, DecoderStartError
from diptych.scoring import decode_pool, fork_server
from diptych.scoring.deadline import Deadline, deadline_scope
from diptych.scoring.decode_pool import DecodePool

MIB = 2**20


@pytest.mark.parametrize("size", [10, 10 * MIB])
def test_a_stopped_process_is_replaced_after_the_time_of_a_picture_whatever_it_was_to_read(size, monkeypatch):
    monkeypatch.setattr(decode_pool, "_GRACE", 0.5)
    with DecodePool(1, seconds=0.5) as workers:
        first = workers.run(os.getpid)
        os.kill(first, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(DeadlineError, match=r"^a decoding process said nothing for 1 s; try again"):
            workers.run(partial(len, bytes(size)))
        assert 0.9 < time.monotonic() - began < 5
        assert workers.run(partial(len, bytes(size))) == size
        until(lambda: not alive(first))


def test_nobody_waits_for_a_stopped_process_or_a_free_one_beyond_their_deadline(monkeypatch):
    with DecodePool(1) as workers, ThreadPoolExecutor(2) as pool:
        first = workers.run(os.getpid)
        os.kill(first, signal.SIGSTOP)

        def ask() -> float:
            began = time.monotonic()
            with deadline_scope(Deadline(began + 0.5)), pytest.raises(DeadlineError):
                workers.run(os.getpid)
            return time.monotonic() - began

        asked = [pool.submit(ask) for _ in range(2)]
        assert max(one.result(10) for one in asked) < 3
        second = workers.run(os.getpid)
        assert second != first
        monkeypatch.setattr(decode_pool, "_END", 1.0)
        os.kill(second, signal.SIGSTOP)
    assert not alive(second), "a pool with a stopped process closes and leaves none"


def test_a_pool_whose_processes_never_begin_says_so_and_works_once_they_do(monkeypatch):
    with DecodePool(1) as workers:
        kill_the_next(len(decode_pool._STARTS), monkeypatch)
        with pytest.raises(DecoderEndedError):
            workers.run(partial(os._exit, 3))
        with pytest.raises(DecoderStartError, match=r"ended before it could begin \(SIGKILL\); try again later"):
            workers.run(os.getpid)
        assert workers.run(partial(str, "the next picture")) == "the next picture"


def kill_the_next(number, monkeypatch):
    """Kill so many processes as soon as they are started."""
    start, killed = fork_server.start_process, []

    def start_and_kill(*args, **options):
        process, pipe = start(*args, **options)
        if len(killed) < number:
            killed.append(process.pid)
            process.kill()
            process.join()
            while pipe.poll():  # what it said before it was killed
                try:
                    pipe.recv()
                except EOFError:
                    break
        return process, pipe

    monkeypatch.setattr(decode_pool, "start_process", start_and_kill)
