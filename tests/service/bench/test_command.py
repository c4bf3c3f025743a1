import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import alive, until

from diptych.bench.command import read_peak_bytes, run_with_peak
from diptych.errors import BenchError

# A command that waits for another one, which has a temporary folder.
ASKS = """
import sys
from diptych.bench.command import start_process
from diptych.signals import interrupt_on_signals
with interrupt_on_signals(), start_process([sys.executable, "-c", sys.argv[1]]) as process:
    process.wait()
"""
WORKS = """
import os, tempfile, time
from pathlib import Path
from diptych.signals import interrupt_on_signals
with interrupt_on_signals(), tempfile.TemporaryDirectory():
    Path(os.environ["TMPDIR"], "pid.new").write_text(str(os.getpid()))
    Path(os.environ["TMPDIR"], "pid.new").rename(Path(os.environ["TMPDIR"], "pid"))
    time.sleep(60)
"""


def test_a_command_gives_its_output_and_its_peak_memory_or_ends_with_its_words() -> None:
    said, most = run_with_peak("models", "list", "--json")
    assert "photo-small" in said
    assert 2**22 < most < 2**30
    assert read_peak_bytes() > 2**22
    with pytest.raises(BenchError, match=r"`diptych score` ended with 1: .*a\.jpg does not exist$"):
        run_with_peak("score", "a.jpg", "b.jpg")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_command_that_is_ended_leaves_no_process_and_no_temporary_folder(environment, tmp_path: Path, sent) -> None:
    line = [sys.executable, "-c", ASKS, WORKS]
    with subprocess.Popen(line, env=environment | {"TMPDIR": str(tmp_path)}, stderr=subprocess.DEVNULL) as process:
        until((tmp_path / "pid").exists)
        worker = int((tmp_path / "pid").read_text())
        assert alive(worker)
        process.send_signal(sent)
        assert process.wait(20)
    assert not alive(worker)
    assert [path.name for path in tmp_path.iterdir()] == ["pid"]
