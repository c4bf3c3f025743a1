"""The signals that end a process that runs until it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAITS = """
import signal, sys, time
from diptych.signals import end_orderly
if sys.argv[1] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
end_orderly()
try:
    print("waiting", flush=True)
    time.sleep(60)
finally:
    print("closed", flush=True)
"""


@pytest.fixture
def waiting(environment):
    """A process that ends in order, and says so."""
    started: list[subprocess.Popen[str]] = []

    def start(how: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WAITS, how]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "waiting\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_process_that_is_told_to_end_closes_what_it_has_and_succeeds(waiting, sent):
    process = waiting()
    process.send_signal(sent)
    assert process.communicate(timeout=20)[0] == "closed\n"
    assert process.returncode == 0


def test_under_nohup_a_closed_terminal_ends_nothing(waiting):
    process = waiting("nohup")
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.terminate()
    assert process.wait(20) == 0
