"""The command `diptych`: finds every package's subcommands, runs one, and turns errors into one line and a number."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from io import TextIOWrapper
from typing import Annotated, NoReturn

from typer import Context, Exit, Option, TyperException

from diptych.command_tree import Commands, make_root, parse_words
from diptych.console import as_json, close_bars, one_line
from diptych.signals import interrupt_on_signals
from diptych_runtime.errors import DiptychError, UnknownModelError

GROUP = "diptych.commands"
OK, ERROR, USAGE, INTERRUPTED = 0, 1, 2, 130
_COMPLETE = "_DIPTYCH_COMPLETE"  # which a shell sets that asks for completions


def main(argv: Sequence[str] | None = None) -> int:
    """Run `diptych` with these arguments (by default the process's own).

    Returns 0 if all went well, 1 after an error, 2 for a model's name that there is not, 130 after Ctrl-C and 143
    after SIGTERM; leaves by SystemExit(2) on other wrong usage, and by SystemExit(0) after help.
    """
    _use_utf8()
    commands, words = build_commands(), list(sys.argv[1:] if argv is None else argv)
    if _COMPLETE in os.environ:
        commands.main(words, "diptych")  # which answers the shell and leaves
    context, received = None, []
    try:
        with (context := parse_words(commands, words)), interrupt_on_signals() as received:
            _log_to_stderr()
            try:
                code = context.command.invoke(context)
            finally:
                close_bars()
        return _interrupted_by(received) if code == INTERRUPTED else code
    except Exit as end:
        sys.exit(end.exit_code)
    except TyperException as error:
        _refuse_usage(error)
    except (DiptychError, OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            return _reader_left()
        _report_error(error, json=context is not None and context.params.get("as_json", False))
        return USAGE if isinstance(error, UnknownModelError) else ERROR
    except KeyboardInterrupt:
        print("diptych: interrupted", file=sys.stderr)
        return _interrupted_by(received)


def _interrupted_by(received: Sequence[int]) -> int:
    """The exit code of a command that the first of these signals interrupted, or Ctrl-C, as shells have it."""
    return 128 + received[0] if received else INTERRUPTED


def build_commands() -> Commands:
    """The whole command line, from the entry points of the group `diptych.commands`."""
    commands = make_root(diptych)
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name != "service"):
        try:
            register = entry.load()
        except ImportError as error:
            # One broken package must not take the others' commands away.
            print(f"diptych: the commands of {entry.value} cannot be loaded: {error}", file=sys.stderr)
            continue
        register(commands)
    return commands


def diptych(
    version: Annotated[
        bool, Option("--version", is_eager=True, callback=lambda value: _print_version(value), help="print the version")
    ] = False,
) -> None:
    """Scores how alike two pictures are by looking at both at once."""


def _use_utf8() -> None:
    """Read and write UTF-8 under any locale. Names of other bytes are written with escapes."""
    for stream, errors in ((sys.stdin, "strict"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def _log_to_stderr() -> None:
    import logging  # which `diptych --help` does without

    from diptych.log_format import VisibleFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("diptych: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"diptych {version('diptych')}")
        raise Exit


def _refuse_usage(error: TyperException) -> NoReturn:
    """Print the usage of the command and the error, and exit."""
    context: Context | None = getattr(error, "ctx", None)
    path, usage = (context.command_path, f"{context.get_usage()}\n") if context else ("diptych", "")
    said = one_line(getattr(error, "format_message", lambda: str(error))())
    print(f"{usage}Try '{path} --help' for help.\n{path}: error: {said}", file=sys.stderr)
    sys.exit(USAGE)


def _report_error(error: DiptychError | OSError | MemoryError, *, json: bool) -> None:
    text, code = str(error), error.code if isinstance(error, DiptychError) else "io"
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    if isinstance(error, MemoryError):
        text = "memory ran out; allow more (`ulimit -v`, the limit of a container), or end other programs"
        code = "no_memory"
    if json:
        print(as_json({"error": {"message": text, "type": type(error).__name__, "code": code}}))
    else:
        print(f"diptych: error: {one_line(text)}", file=sys.stderr)


def _reader_left() -> int:
    # Python would meet the closed pipe once more while it shuts down.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ERROR
