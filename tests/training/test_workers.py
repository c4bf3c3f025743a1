"""Processes that compute beside others: they end with the one that asked for them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import alive, eventually

from diptych_training.errors import DataError
from diptych_training.workers import worker_pool


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_an_error_that_says_so() -> None:
    with pytest.raises(DataError, match="was killed, as happens where memory runs out"), worker_pool(1) as pool:
        pool.submit(be_killed).result()


@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_workers_end_when_the_process_that_asked_does(tmp_path: Path, ended: signal.Signals) -> None:
    program = (
        "import signal\nfrom diptych_training.workers import worker_pool\nfrom work import linger\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    with worker_pool(2) as pool:\n"
        "        list(pool.map(linger, range(2)))\n"
    )
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "work.py").write_text(
        "import os, time\nfrom pathlib import Path\ndef linger(_):\n"
        "    Path(f'pid-{os.getpid()}').touch()\n    time.sleep(600)\n"
    )
    # What multiprocessing's tracker says of the kill is nothing to see here.
    started = subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    assert eventually(lambda: len(list(tmp_path.glob("pid-*"))) == 2, 60), "the workers did not begin"
    started.send_signal(ended)
    assert started.wait(60)
    workers = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    assert eventually(lambda: not any(alive(worker) for worker in workers), 60), "a worker outlived who asked for it"
