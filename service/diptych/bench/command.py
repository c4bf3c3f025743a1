"""Processes of `diptych` that are measured, as people run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from diptych.errors import BenchError
from diptych.signals import defer_signals

_GRACE = 30  # seconds in which a process that is told to end removes its temporary files

_MAIN = """
import sys
from pathlib import Path
from diptych.bench.command import read_peak_bytes
from diptych.cli.main import main
code = main(sys.argv[2:])
Path(sys.argv[1]).write_text(str(read_peak_bytes()))
sys.exit(code)
"""


def run_with_peak(*words: object) -> tuple[str, int]:
    """Run `diptych` with these words; gives its output, and its peak memory in bytes. Raises BenchError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "peak.txt")
        line = [sys.executable, "-P", "-c", _MAIN, told, *words]
        with start_process(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            out, err = process.communicate()
        if process.returncode:
            raise BenchError(f"`diptych {words[0]}` ended with {process.returncode}: {(err or out).strip()}")
        return out, int(told.read_text())


@contextmanager
def start_process(line: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process that has ended when the block is left, however that is.

    It is told to by SIGTERM, and killed after half a minute. Ctrl-C, which a terminal sends to all processes of a
    command, reaches it that way alone.
    """
    process = None
    try:
        with defer_signals():  # or a process could begin that nobody knows of
            process = subprocess.Popen([*map(str, line)], start_new_session=True, **options)
        yield process
    finally:
        if process is not None:
            _end_process(process)


def read_peak_bytes() -> int:
    """Read the most bytes that this process has held since it began its program."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not what getrusage says: that begins with what the parent held.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _end_process(process: subprocess.Popen[Any]) -> None:
    try:
        if process.poll() is None:
            process.terminate()
            process.wait(_GRACE)
    except BaseException as error:  # another signal too
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
    finally:
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            with suppress(BrokenPipeError):
                pipe.close()
