"""The signals that end a process that runs until it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from diptych.signals import defer_signals, interrupt_on_signals

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


@pytest.fixture(autouse=True)
def handled_by_nobody():
    """Signals as a process begins with them: a cluster that a test has begun leaves a handler of its own."""
    sent = signal.SIGTERM, signal.SIGHUP
    before = [signal.signal(one, signal.SIG_DFL) for one in sent]
    yield
    for one, handler in zip(sent, before, strict=True):
        signal.signal(one, handler)


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


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_told_to_end_is_interrupted_as_by_ctrl_c_and_says_by_which_signal(sent):
    before, told = signal.getsignal(sent), []

    def run() -> None:
        with interrupt_on_signals() as received:
            told.append(received)
            signal.raise_signal(sent)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert told == [[sent]]
    assert signal.getsignal(sent) == before


def test_what_is_ignored_or_has_a_handler_stays_so():
    heard: list[int] = []
    before = [signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGTERM, lambda *_: heard.append(1))]
    try:
        with interrupt_on_signals() as received:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])
    assert (received, heard) == ([], [1])


def test_a_forked_process_ends_by_the_signal_itself():
    near, far = os.pipe()
    with interrupt_on_signals():
        process = os.fork()
        if not process:
            os.write(far, b"ready")
            time.sleep(20)
            os._exit(0)
        assert os.read(near, 5) == b"ready"
        os.kill(process, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGTERM


def test_signals_wait_until_a_block_that_must_be_whole_is_left():
    steps = []

    def run() -> None:
        with interrupt_on_signals():
            with defer_signals():
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)
                steps.append("whole")
            steps.append("never")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert steps == ["whole"]
