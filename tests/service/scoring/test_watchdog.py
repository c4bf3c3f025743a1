import threading
import time
from types import SimpleNamespace

import pytest

from diptych.scoring import watchdog
from diptych.scoring.watchdog import Clock, Watchdog


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


def test_for_how_long_the_process_was_stopped_does_not_count(monkeypatch):
    now = [100.0]
    # Its own clock alone: a service in this process would sleep until the clock of all is back where it was.
    monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: now[0]))
    clock = Clock()
    running = Watchdog(clock)
    clock.tick(0.0)
    with running:
        for passed in (1.0, 1.9, 9.0, 1.0):  # one a second, one late on a busy machine, one after eight seconds stopped
            now[0] += passed
            clock.tick(1.0)
        assert running.longest_running() == pytest.approx(1.0 + 1.9 + 1.0 + 1.0)
