import signal
import time
from functools import partial

import pytest
from part_works import always, once, plain, slow, wrong

from diptych.batch.workers.pool import Pool
from diptych.batch.workers.retries import MOST, RetryQueue
from diptych.errors import BatchError


def attempts(numbers, say=lambda text: None) -> RetryQueue:
    return RetryQueue(numbers, lambda number: f"the rows of part {number}", say)


def test_every_part_is_done_once_by_whichever_process():
    with Pool(3) as pool:
        assert sorted(pool.run(plain, attempts(range(20)))) == list(range(20))
        assert sorted(pool.run(plain, attempts([7]))) == [7], "the processes are still there"


def test_the_part_of_a_killed_process_is_done_by_another_and_that_is_said(tmp_path):
    said = []
    with Pool(2) as pool:
        assert sorted(pool.run(partial(once, folder=tmp_path), attempts(range(9), said.append))) == list(range(9))
    assert said == ["a worker was lost (SIGKILL); the rows of part 3 are done again"]


def test_a_part_that_ends_whoever_does_it_ends_the_run_with_its_rows():
    said = []
    with Pool(2) as pool, pytest.raises(BatchError, match=f"part 3 could not be done: {MOST} workers in turn"):
        list(pool.run(always, attempts(range(9), said.append)))
    assert len(said) == MOST - 1


def test_what_the_work_raises_comes_out_as_it_was():
    with Pool(1) as pool, pytest.raises(BatchError, match="one reason"):
        list(pool.run(wrong, attempts([1])))
    with Pool(1) as pool, pytest.raises(OSError, match="No space left") as caught:
        list(pool.run(wrong, attempts([2])))
    assert caught.value.filename == "part"


def test_leaving_does_not_wait_for_parts_in_work():
    def run_until_interrupted() -> None:
        with Pool(2) as pool:
            parts = pool.run(slow, attempts(range(4)))
            signal.setitimer(signal.ITIMER_REAL, 1)
            next(parts)

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            run_until_interrupted()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 20


def test_a_pool_has_at_least_one_process():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Pool(0)
