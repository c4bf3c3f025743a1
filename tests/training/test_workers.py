"""Processes that compute beside others: they end with the one that asked for them."""

import subprocess
import sys
from pathlib import Path

from waiting import alive, eventually


def test_workers_end_when_the_process_that_asked_is_killed(tmp_path: Path) -> None:
    program = (
        "from concurrent.futures import ProcessPoolExecutor\nfrom multiprocessing import get_context\n"
        "from diptych_training.workers import begin_worker\nfrom work import linger\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(2, get_context('spawn'), begin_worker) as pool:\n"
        "        list(pool.map(linger, range(2)))\n"
    )
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "work.py").write_text(
        "import os, time\nfrom pathlib import Path\ndef linger(_):\n"
        "    Path(f'pid-{os.getpid()}').touch()\n    time.sleep(60)\n"
    )
    # What multiprocessing's tracker says of the kill is nothing to see here.
    started = subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    assert eventually(lambda: len(list(tmp_path.glob("pid-*"))) == 2, 60), "the workers did not begin"
    started.kill()
    started.wait()
    workers = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
    assert eventually(lambda: not any(alive(worker) for worker in workers), 60), "a worker outlived who asked for it"
