import threading
import time

import pytest

from diptych.running import Running


def test_the_one_that_began_first_counts_until_it_ends():
    running, gate, begun = Running(), threading.Event(), threading.Event()

    def hang() -> None:
        with running:
            begun.set()
            gate.wait(10)

    thread = threading.Thread(target=hang)
    thread.start()
    assert begun.wait(10)
    time.sleep(0.05)
    with running:
        assert 0.05 <= running.oldest() < 5
    gate.set()
    thread.join()
    assert running.oldest() == 0


def test_an_error_ends_it_too():
    running = Running()
    with pytest.raises(ValueError, match="broken"), running:
        raise ValueError("broken")
    assert running.oldest() == 0
