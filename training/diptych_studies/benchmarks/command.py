"""Commands of `diptych` in processes of their own, as people run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from diptych.bench.command import start_process
from diptych.errors import BenchError

_TICK = 0.5  # seconds


def run_command(
    *words: object, tick: Callable[[], object] | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run `diptych` with these words and variables of the environment, and give its output.

    `tick` is called twice a second until then. Raises BenchError if it fails.
    """
    line = [sys.executable, "-P", "-m", "diptych", *words]
    done = run_process(line, tick=tick, env=os.environ | dict(environment or {}))
    if done.returncode:
        reason = (done.stderr or done.stdout).decode(errors="replace").strip()
        with suppress(ValueError, KeyError, TypeError):  # with --json it is part of a document
            reason = json.loads(reason)["error"]["message"]
        raise BenchError(f"`diptych {words[0]}` ended with {done.returncode}: {reason}")
    return done.stdout.decode()


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
