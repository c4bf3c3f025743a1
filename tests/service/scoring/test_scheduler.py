import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest

from diptych.errors import DeadlineError, OverloadedError
from diptych.scoring.deadline import Deadline, deadline_scope
from diptych.scoring.scheduler import PairScheduler, Watchdog
from diptych_runtime.errors import ArtifactError


class Slow:
    """A runtime whose pairs wait for a gate, and which remembers what each thread took."""

    pair_chunk: int = 4
    questions: tuple[str, ...] = ("copy", "thing")

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers
        self.gate, self.entered = threading.Semaphore(0), threading.Semaphore(0)
        self.taken: list[list[int]] = []
        self.error: Exception | None = None

    def broadcast_pairs(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.broadcast_to(tokens_a, tokens_b.shape), tokens_b

    def logits_on_this_thread(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        self.taken.append(tokens_b[:, 0].astype(int).tolist())
        self.entered.release()
        self.gate.acquire()
        if self.error is not None:
            raise self.error
        scores = (tokens_a * tokens_b)[:, 0].astype(np.float32)
        return np.stack([-scores, scores], 1)

    def open(self, chunks: int = 1000) -> None:
        self.gate.release(chunks)


def scheduler_of(runtime: Slow, **options: int) -> PairScheduler:
    return PairScheduler(cast(Any, runtime), **options)


def pairs(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.ones((1, 1)), np.arange(first, first + count, dtype=float)[:, None]


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


def ask(pool, scheduler, first, count, **options):
    """Ask in another thread, and come back when the pairs are in the queue."""
    before = scheduler.waiting
    future = pool.submit(scheduler.logits, *pairs(first, count), **options)
    while scheduler.waiting == before and not future.done():
        time.sleep(0.001)
    return future


def held(pool, runtime, scheduler):
    """One pair inside the runtime, so that what is asked for next has to wait."""
    first = pool.submit(scheduler.logits, *pairs(0, 1))
    runtime.entered.acquire()
    return first


def test_scores_are_those_of_the_runtime_in_order(scorer):
    tokens = np.random.default_rng(0).standard_normal((37, *scorer.runtime.token_shape)).astype(np.float16)
    expected = scorer.runtime.pair_logits(tokens[:1], tokens)[:, None]
    scheduler = PairScheduler(scorer.runtime)
    assert np.array_equal(scheduler.logits(tokens[:1], tokens), expected)
    assert scheduler.logits(tokens[:0], tokens[:0]).shape == (0, 1)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(scheduler.logits, tokens[:1], tokens[i : i + 1 + i % 5]) for i in range(30)]
        for i, future in enumerate(asked):
            assert np.array_equal(future.result(), expected[i : i + 1 + i % 5])
    assert scheduler.waiting == 0


def test_one_pair_does_not_wait_for_a_thousand_and_small_ones_share_a_turn(pool):
    runtime = Slow()
    scheduler = scheduler_of(runtime)
    first = held(pool, runtime, scheduler)
    giant = ask(pool, scheduler, 1000, 1000)
    single, two = ask(pool, scheduler, 1, 1), ask(pool, scheduler, 2, 2)
    runtime.open(2)
    assert single.result(5).tolist() == [[-1, 1]]
    assert np.array_equal(two.result(5)[:, 1], [2, 3])
    assert not giant.done()
    runtime.open()
    assert np.array_equal(giant.result(5)[:, 1], np.arange(1000, 2000))
    assert np.array_equal(first.result(5)[:, 1], [0])
    # A chunk of the giant, then both small ones, and only then more of the giant.
    assert runtime.taken[:2] == [[0], [*range(1000, 1004), 1, 2, 3, *range(1004, 1013)]]


def test_as_many_threads_work_at_a_time_as_there_are_workers(pool):
    runtime = Slow(workers=3)
    scheduler = scheduler_of(runtime)
    asked = pool.submit(scheduler.logits, *pairs(0, 100))
    for _ in range(3):
        assert runtime.entered.acquire(timeout=5)
    assert not runtime.entered.acquire(timeout=0.05)
    runtime.open()
    assert np.array_equal(asked.result(5)[:, 1], np.arange(100))
    sizes = [len(taken) for taken in runtime.taken]
    assert (max(sizes), min(sizes)) == (16, 4), "several chunks at once, and less towards the end"


@pytest.mark.parametrize("end", [Deadline(at=0.0), Deadline(cancelled=True), None])
def test_what_comes_too_late_or_nobody_waits_for_is_not_computed(end, monkeypatch, pool):
    runtime = Slow()
    scheduler = scheduler_of(runtime)
    first = held(pool, runtime, scheduler)

    def interrupt(self, timeout=None):
        raise KeyboardInterrupt

    if end is None:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Event, "wait", interrupt)
            with pytest.raises(KeyboardInterrupt):
                scheduler.logits(*pairs(10, 7))
    else:
        told = r"7 of 7 pairs were not scored in the time given|nobody waits for these pairs any more"
        with deadline_scope(end), pytest.raises(DeadlineError, match=told):
            scheduler.logits(*pairs(10, 7))
    assert scheduler.waiting == 0
    runtime.open()
    first.result(5)
    assert runtime.taken == [[0]]


def test_the_wait_for_a_turn_is_told_once_for_each_request_and_pairs_in_flight_are_counted(pool):
    runtime, waited = Slow(), []
    scheduler = scheduler_of(runtime)
    scheduler.waited = waited.append
    first = held(pool, runtime, scheduler)
    assert (scheduler.in_flight, len(waited)) == (1, 1)
    second = ask(pool, scheduler, 10, 20)
    time.sleep(0.5)
    runtime.open()
    first.result(5)
    second.result(5)
    assert len(waited) == 2
    assert waited[1] >= 0.5 > waited[0]
    assert scheduler.in_flight == 0


def test_a_full_queue_is_refused_with_the_time_to_come_back_and_a_large_request_alone_is_not(pool):
    runtime = Slow()
    scheduler = scheduler_of(runtime, capacity=10)
    first = held(pool, runtime, scheduler)
    large = ask(pool, scheduler, 0, 25)
    with pytest.raises(OverloadedError, match="25 pairs are waiting, and with 1 more they are over 10") as caught:
        scheduler.logits(*pairs(0, 1))
    assert caught.value.seconds >= 1
    runtime.open()
    assert len(large.result(5)) == 25
    assert np.array_equal(scheduler.logits(*pairs(3, 1))[:, 1], [3])
    first.result(5)


def test_an_error_reaches_all_who_share_the_chunk_and_the_engine_goes_on(pool):
    runtime = Slow()
    scheduler = scheduler_of(runtime)
    first = held(pool, runtime, scheduler)
    runtime.error = ArtifactError("broken")
    others = [ask(pool, scheduler, 10, 9), ask(pool, scheduler, 20, 1)]
    runtime.open()
    for future in (first, *others):
        with pytest.raises(ArtifactError, match="broken"):
            future.result(5)
    runtime.error = None
    assert np.array_equal(scheduler.logits(*pairs(4, 2))[:, 1], [4, 5])


def test_the_computation_that_began_first_counts_until_it_ends():
    running, gate, begun = Watchdog(), threading.Event(), threading.Event()

    def hang() -> None:
        with running:
            begun.set()
            gate.wait(10)

    thread = threading.Thread(target=hang)
    thread.start()
    assert begun.wait(10)
    time.sleep(0.05)
    with running:
        assert 0.05 <= running.longest_running() < 5
    gate.set()
    thread.join()
    with pytest.raises(ValueError, match="broken"), running:
        raise ValueError("broken")
    assert running.longest_running() == 0
