"""A campaign of faults: what the `torture*.py` programs share, and how their tests run them."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CANNOT = 3  # the exit code where a fault cannot be made


class CannotError(Exception):
    """A fault that cannot be made on this machine, and why."""


@dataclass
class Tally:
    """What came of a fault: steps that were `acknowledged` (for a move: done; for an upgrade: killed), how often the
    fault was `noticed` (refused, repaired or named), what is lost, what is false, and what else must not be.
    """

    cycles: int = 0
    acknowledged: int = 0
    noticed: int = 0
    lost: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def survived(self) -> bool:
        """Whether all is well."""
        return not (self.lost or self.false or self.wrong)


def kill_after(seconds: float, act: Callable[[], object]) -> int | None:
    """Do something in a child that is killed after a while: its exit code if it ended before, else None."""
    child = os.fork()
    if not child:
        try:
            act()
        except BaseException as error:
            print(f"the child: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def campaign(
    parser: argparse.ArgumentParser, faults: Collection[str], run: Callable[[str, argparse.Namespace], Tally]
) -> int:
    """Run the faults that the command line names and print a row of counts for each: cycles, acknowledged, noticed,
    lost and false. Returns 0 if all was survived, 1 if not, CANNOT if a fault cannot be made here.
    """
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"of {', '.join(faults)} (default: all)")
    parser.add_argument("--cycles", type=int, default=20, help="per fault (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if unknown := set(args.faults) - set(faults):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(faults)}")
    code = 0
    for fault in args.faults or faults:
        try:
            tally = run(fault, args)
        except CannotError as error:
            print(f"{fault}: {error}", file=sys.stderr)
            code = code or CANNOT
            continue
        counts = (tally.cycles, tally.acknowledged, tally.noticed, len(tally.lost), len(tally.false))
        print(fault, *counts, flush=True)
        for text in (*tally.lost, *tally.false, *tally.wrong):
            print(f"{fault}, seed {args.seed}, cycle {tally.cycles}: {text}", file=sys.stderr)
            code = 1
    return code


def survived(program: Path, environment: Mapping[str, str], *arguments: object) -> tuple[list[list[str]], int]:
    """The rows of a campaign in a process of its own, which must end well, and its exit code: 0 or CANNOT."""
    command = [sys.executable, "-W", "error", *map(str, (program, *arguments))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode in (0, CANNOT), done.stderr
    return [line.split() for line in done.stdout.splitlines()], done.returncode
