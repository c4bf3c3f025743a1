"""Commands of `diptych` in processes of their own, as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from diptych.errors import BenchError

_MAIN = """
import sys
from pathlib import Path
from diptych.bench.command import peak
from diptych.cli.main import main
code = main(sys.argv[2:])
Path(sys.argv[1]).write_text(str(peak()))
sys.exit(code)
"""


def run_command(*words: object, **environment: str) -> str:
    """The output of `diptych` with these words and variables of the environment. Raises BenchError if it fails."""
    return _run(["-m", "diptych"], words, environment)


def run_with_peak(*words: object) -> tuple[str, int]:
    """The output of `diptych` with these words, and the process's peak memory in bytes. Raises BenchError if it
    fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "peak.txt")
        return _run(["-c", _MAIN, str(told)], words, {}), int(told.read_text())


def peak() -> int:
    """The most bytes that this process has held since it began its program."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not what getrusage says: that begins with what the parent held.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _run(program: Sequence[str], words: Sequence[object], environment: dict[str, str]) -> str:
    line = [sys.executable, *program, *map(str, words)]
    done = subprocess.run(line, capture_output=True, env=os.environ | environment)
    if done.returncode:
        reason = _message((done.stderr or done.stdout).decode(errors="replace").strip())
        raise BenchError(f"`diptych {words[0]}` ended with {done.returncode}: {reason}")
    return done.stdout.decode()


def _message(said: str) -> str:
    """The message of an error, which with `--json` is one of a document."""
    try:
        return str(json.loads(said)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return said
