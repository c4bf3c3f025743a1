"""The console of every `diptych` subcommand, so that all of them look and behave alike. Cheap to import."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeVar

T = TypeVar("T")
_SHOWN = 20  # lines of a list, at most
Subparsers = Any  # argparse keeps the class of `add_subparsers()` private


def add_common(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options every command has: `--json` and `--quiet`."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument(
        "--quiet", "-q", action="store_true", help="no progress and no remarks, only results and errors"
    )
    return parser


def command(
    subparsers: Subparsers, name: str, help: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add the subcommand `name`, which calls `run(args)` and exits with its result (0 well, 1 error).

    Heavy imports belong inside `run`: the parser of every command is built for each `diptych --help`.
    """
    parser = subparsers.add_parser(name, help=help, description=help[:1].upper() + help[1:] + ".")
    parser.set_defaults(run=run)
    return add_common(parser)


def group(subparsers: Subparsers, name: str, help: str) -> tuple[argparse.ArgumentParser, Subparsers]:
    """The subcommand `name` and those below it, made by the first package that needs it.

    Without one of its subjects it is an error, unless somebody sets `run` on it.
    """
    if name not in subparsers.choices:
        parser = add_common(subparsers.add_parser(name, help=help, description=help[:1].upper() + help[1:] + "."))
        subjects = parser.add_subparsers(title="subjects", metavar="[SUBJECT]", required=False)
        parser.set_defaults(run=lambda args: parser.error("name one of its subjects"), subjects=subjects)
    parser = subparsers.choices[name]
    return parser, parser.get_default("subjects")


# What a terminal obeys, or what reorders what it shows: control characters, separators of lines, marks of direction.
_UNSEEN = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
} | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\t"}

_C1 = {code: f"\\u{code:04x}" for code in range(127, 160)}


def one_line(text: str) -> str:
    """A text with a file's name in it as one line: line ends and what a terminal obeys are written as \\n, \\x1b.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return text.translate(_UNSEEN)


def visible(text: str) -> str:
    """The lines of a text, each as `one_line` gives it."""
    return "\n".join(map(one_line, text.split("\n")))


class VisibleFormatter(logging.Formatter):
    """A formatter of log lines, which have names of files in them, that lets no terminal obey these."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging does it, with `visible`."""
        return visible(super().format(record))


def emit(args: argparse.Namespace, data: Any, text: str) -> None:
    """Print the result on standard output: `data` as JSON with `--json`, else `text` (nothing if it is empty)."""
    # JSON escapes the other control characters itself.
    said = json.dumps(data, ensure_ascii=False, indent=2, default=_plain).translate(_C1) if args.json else visible(text)
    if said:
        # A file name need not be UTF-8; its other bytes are written as \udc.. and do not end the program.
        print(said.encode("utf-8", "backslashreplace").decode())


def remark(args: argparse.Namespace, text: str) -> None:
    """Say something beside the result: on standard error, and not at all with `--quiet` or `--json`."""
    if not (args.quiet or args.json):
        print(visible(text), file=sys.stderr)


def progress(
    iterable: Iterable[T],
    args: argparse.Namespace | None = None,
    total: int | None = None,
    unit: str = "it",
    desc: str | None = None,
    initial: int = 0,
) -> Any:
    """The iterable behind a tqdm bar on standard error, drawn only on a terminal and without `--quiet` or `--json`.

    `initial` of `total` are done already, and do not count in the rate.

    The return value is the tqdm object itself: iterate over it, or call its `update` and `close`.
    """
    from tqdm import tqdm

    silent = args is not None and (args.quiet or args.json)
    # `disable=None` is tqdm's way to say "only if the file is a terminal".
    disable = True if silent else None
    return tqdm(iterable, total=total, unit=unit, desc=desc, disable=disable, dynamic_ncols=True, initial=initial)


@contextmanager
def open_text(path: str, *, newline: str | None = None) -> Iterator[TextIO]:
    """A text file for reading as UTF-8 (a byte-order mark is skipped); `-` is standard input, which stays open."""
    if path == "-":
        yield sys.stdin
        return
    with Path(path).open(encoding="utf-8-sig", newline=newline) as file:
        yield file


def read_bytes(path: str) -> bytes:
    """All bytes of a file; `-` is standard input."""
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows under a header in aligned columns: numbers to the right, everything else to the left."""
    head, body = [str(cell) for cell in header], [list(row) for row in rows]
    lines = [head, *([str(cell) for cell in row] for row in body)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    right = [
        bool(body) and all(isinstance(row[column], int | float) or _numeric(row[column]) for row in body)
        for column in range(len(head))
    ]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def shortened(lines: list[str]) -> list[str]:
    """The first twenty, and how many more there are."""
    lines, more = list(map(one_line, lines)), len(lines) - _SHOWN
    return lines if more <= 0 else [*lines[:_SHOWN], f"  and {more:,} more (--json lists all)"]


def _numeric(cell: object) -> bool:
    try:
        float(str(cell).rstrip("%"))
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:
    """JSON for values that are not JSON by themselves: paths, NumPy scalars and arrays."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
