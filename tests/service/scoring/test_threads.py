import threading
import time

import pytest

from diptych.scoring.deadline import Deadline, current_deadline, deadline_scope
from diptych.scoring.threads import map_pictures
from diptych_runtime.errors import PictureError


@pytest.mark.parametrize("threads", [1, 3, 100])
def test_results_and_bad_pictures_stand_in_the_order_of_the_items_in_the_callers_context(threads):
    asked = Deadline(at=5.0)

    def square_odd(item: int) -> int:
        time.sleep(0.002 * (13 - item))
        assert current_deadline() is asked
        if item % 2 == 0:
            raise PictureError(f"picture {item} is even")
        return item * item

    with deadline_scope(asked):
        results = map_pictures(square_odd, range(13), threads)
    assert results[1::2] == [item * item for item in range(1, 13, 2)]
    assert [str(error) for error in results[::2]] == [f"picture {item} is even" for item in range(0, 13, 2)]
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
    here = threading.current_thread()
    assert map_pictures(lambda _: threading.current_thread(), [1], 8) == [here], "one item needs no other thread"
