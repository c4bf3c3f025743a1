"""The command `diptych`: finds every package's subcommands, runs one, and turns errors into one line and a number."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version

from diptych.console import VisibleFormatter, one_line
from diptych_runtime.errors import DiptychError

GROUP = "diptych.commands"
OK, ERROR, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run `diptych` with these arguments (by default the process's own).

    Returns 0 if all went well, 1 after an error, 130 after Ctrl-C; leaves by SystemExit(2) on wrong usage.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("diptych: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    args = build_parser().parse_args(argv)
    try:
        return args.run(args)
    except (DiptychError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _reader_left()
        _report(args, error)
        return ERROR
    except KeyboardInterrupt:
        print("diptych: interrupted", file=sys.stderr)
        return INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, from the entry points of the group `diptych.commands`."""
    parser = argparse.ArgumentParser(
        prog="diptych", description="Scores how alike two pictures are by looking at both at once."
    )
    parser.add_argument("--version", action="version", version=f"diptych {version('diptych')}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name != "service"):
        try:
            register = entry.load()
        except ImportError as error:
            # One broken package must not take the others' commands away.
            print(f"diptych: the commands of {entry.value} cannot be loaded: {error}", file=sys.stderr)
            continue
        register(subparsers)
    return parser


def _report(args: argparse.Namespace, error: DiptychError | OSError) -> None:
    if getattr(args, "json", False):
        code = error.code if isinstance(error, DiptychError) else "io"
        body = {"message": str(error), "type": type(error).__name__, "code": code}
        print(json.dumps({"error": body}, ensure_ascii=False, indent=2))
    else:
        print(f"diptych: error: {one_line(str(error))}", file=sys.stderr)


def _reader_left() -> int:
    # Python would meet the closed pipe once more while it shuts down.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ERROR
