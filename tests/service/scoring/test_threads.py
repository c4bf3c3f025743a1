import threading
import time

import pytest

from diptych.scoring.deadline import Deadline, current_deadline, deadline_scope
from diptych.scoring.threads import map_pictures
from diptych_runtime.errors import PictureError


@pytest.mark.parametrize("threads", [1, 2, 5, 100])
def test_results_come_in_the_order_of_the_items_whatever_ends_first(threads):
    def slow_first(item: int) -> int:
        time.sleep(0.002 * (13 - item))
        return item * item

    assert map_pictures(slow_first, range(13), threads) == [item * item for item in range(13)]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_bad_picture_stands_in_its_own_place_and_costs_no_other_one(threads):
    def odd(item: int) -> int:
        if item % 2 == 0:
            raise PictureError(f"picture {item} is even")
        return item

    results = map_pictures(odd, range(7), threads)
    assert [item for item in results if isinstance(item, int)] == [1, 3, 5]
    assert [str(error) for error in results[::2]] == [f"picture {item} is even" for item in (0, 2, 4, 6)]
    assert all(isinstance(error, PictureError) for error in results[::2])


@pytest.mark.parametrize("threads", [1, 3])
def test_any_other_error_is_the_callers_and_the_rest_is_not_begun(threads):
    begun = []

    def fail(item: int) -> None:
        begun.append(item)
        time.sleep(0.001)
        raise ZeroDivisionError(f"item {item}")

    with pytest.raises(ZeroDivisionError, match="item 0"):
        map_pictures(fail, range(1000), threads)
    assert len(begun) < 900


def test_as_many_threads_work_as_are_allowed_and_none_is_left_behind():
    meeting = threading.Barrier(3, timeout=10)
    names = map_pictures(lambda _: (meeting.wait(), threading.current_thread().name)[1], range(3), 3)
    assert len(set(names)) == 3
    assert all(str(name).startswith("diptych-decode") for name in names)
    assert not [thread for thread in threading.enumerate() if thread.name in names]


def test_one_item_or_one_thread_needs_no_other_thread():
    here = threading.current_thread()
    assert map_pictures(lambda _: threading.current_thread(), [1], 8) == [here]
    assert map_pictures(lambda _: threading.current_thread(), [1, 2], 1) == [here, here]
    assert map_pictures(lambda _: threading.current_thread(), [], 8) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_the_callers_context_is_that_of_every_item(threads):
    asked = Deadline(at=5.0)
    with deadline_scope(asked):
        assert map_pictures(lambda _: current_deadline(), range(4), threads) == [asked] * 4
