import threading
import time

import pytest

from diptych.scoring.scheduler import Watchdog


def test_the_one_that_began_first_counts_until_it_ends():
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
    assert running.longest_running() == 0
    with pytest.raises(ValueError, match="broken"), running:
        raise ValueError("broken")
    assert running.longest_running() == 0
