"""Commands of `diptych` in processes of their own, as people run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from diptych.errors import BenchError
from diptych.signals import defer_signals

_GRACE = 30  # seconds in which a process that is told to end removes its temporary files
_TICK = 0.5  # seconds

_MAIN = """
import sys
from pathlib import Path
from diptych.bench.command import read_peak_bytes
from diptych.cli.main import main
code = main(sys.argv[2:])
Path(sys.argv[1]).write_text(str(read_peak_bytes()))
sys.exit(code)
"""


def run_command(
    *words: object, tick: Callable[[], object] | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """The output of `diptych` with these words and variables of the environment; `tick` is called twice a second until
    then. Raises BenchError if it fails.
    """
    return _run_program(["-m", "diptych"], words, environment or {}, tick)


def run_with_peak(*words: object) -> tuple[str, int]:
    """The output of `diptych` with these words, and the process's peak memory in bytes. Raises BenchError if it
    fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "peak.txt")
        return _run_program(["-c", _MAIN, str(told)], words, {}), int(told.read_text())


@contextmanager
def start_process(line: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that has ended when the block is left, however that is: it is told to by SIGTERM, and killed after
    half a minute. Ctrl-C, which a terminal sends to all processes of a command, reaches it that way alone.
    """
    process = None
    try:
        with defer_signals():  # or a process could begin that nobody knows of
            process = subprocess.Popen([*map(str, line)], start_new_session=True, **options)
        yield process
    finally:
        if process is not None:
            _end_process(process)


def run_process(
    line: Sequence[object], *, tick: Callable[[], object] | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """The output of a process and its exit code, once it has ended; `tick` is called twice a second until then."""
    with start_process(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        while True:
            try:
                out, err = process.communicate(timeout=_TICK if tick else None)
            except subprocess.TimeoutExpired:
                assert tick
                tick()
            else:
                return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def read_peak_bytes() -> int:
    """Read the most bytes that this process has held since it began its program."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not what getrusage says: that begins with what the parent held.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _run_program(
    program: Sequence[str],
    words: Sequence[object],
    environment: Mapping[str, str],
    tick: Callable[[], object] | None = None,
) -> str:
    done = run_process([sys.executable, "-P", *program, *words], tick=tick, env=os.environ | dict(environment))
    if done.returncode:
        reason = (done.stderr or done.stdout).decode(errors="replace").strip()
        with suppress(ValueError, KeyError, TypeError):  # with --json it is part of a document
            reason = json.loads(reason)["error"]["message"]
        raise BenchError(f"`diptych {words[0]}` ended with {done.returncode}: {reason}")
    return done.stdout.decode()


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
