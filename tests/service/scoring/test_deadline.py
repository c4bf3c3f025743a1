import os
import time
from functools import partial

import pytest
from stuck import hang

from diptych.errors import DeadlineError
from diptych.scoring.deadline import Deadline, current_deadline, deadline_scope
from diptych.scoring.decode_pool import DecodePool


@pytest.mark.parametrize(
    ("waited", "said"),
    [
        (Deadline(at=0.0), "it was not done within the time it was given; ask for less"),
        (Deadline(cancelled=True), "nobody waits for it any more"),
    ],
)
def test_it_ends_with_the_time_or_with_who_waits_and_only_inside(waited, said):
    current_deadline().check("everything")
    with deadline_scope(Deadline(at=time.monotonic() + 60)):
        current_deadline().check("it")
    with deadline_scope(waited):
        assert current_deadline() is waited
        with pytest.raises(DeadlineError, match=said):
            current_deadline().check("it")
    assert current_deadline() is not waited


def test_pictures_that_nobody_waits_for_any_more_are_not_begun():
    with DecodePool(1, seconds=0.5) as workers:
        calls = [partial(hang, name=f"{number}.jpg") for number in range(40)]
        began = time.monotonic()
        with (
            deadline_scope(Deadline(began + 1)),
            pytest.raises(DeadlineError, match="this picture was not done within"),
        ):
            workers.run_all(calls)
        assert time.monotonic() - began < 10, "forty of them would take 20 s"
        with deadline_scope(Deadline(cancelled=True)), pytest.raises(DeadlineError, match="nobody waits"):
            workers.run(os.getpid)
        assert workers.run(os.getpid) > 0
