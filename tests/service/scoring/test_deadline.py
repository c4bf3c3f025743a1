import os
import time
from functools import partial

import pytest
from stuck import hang

from diptych.errors import DeadlineError
from diptych.scoring.deadline import Patience, patience, waiting_for
from diptych.scoring.decode_pool import Workers


def test_whoever_asks_without_a_limit_waits_for_ever():
    patience().check("everything")


@pytest.mark.parametrize(
    ("waited", "said"),
    [
        (Patience(deadline=0.0), "it was not done within the time it was given; ask for less"),
        (Patience(given_up=True), "nobody waits for it any more"),
    ],
)
def test_it_ends_with_the_time_or_with_who_waits_and_only_inside(waited, said):
    with waiting_for(waited):
        assert patience() is waited
        with pytest.raises(DeadlineError, match=said):
            patience().check("it")
    assert patience() is not waited


def test_there_is_patience_until_the_deadline():
    with waiting_for(Patience(deadline=time.monotonic() + 60)):
        patience().check("it")


def test_pictures_that_nobody_waits_for_any_more_are_not_begun():
    with Workers(1, seconds=0.5) as workers:
        calls = [partial(hang, name=f"{number}.jpg") for number in range(40)]
        began = time.monotonic()
        with waiting_for(Patience(began + 1)), pytest.raises(DeadlineError, match="this picture was not done within"):
            workers.each(calls)
        assert time.monotonic() - began < 10, "forty of them would take 20 s"
        with waiting_for(Patience(given_up=True)), pytest.raises(DeadlineError, match="nobody waits"):
            workers.run(os.getpid)
        assert workers.run(os.getpid) > 0
