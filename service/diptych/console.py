"""The console of every `diptych` subcommand, so that all of them look and behave alike. Cheap to import."""

from __future__ import annotations

import io
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from diptych.progress import ProgressBar, display
from diptych_runtime.errors import ArgumentError
from diptych_runtime.own_files import open_own

if TYPE_CHECKING:
    from diptych_runtime.calibration.verdicts import Verdict

T = TypeVar("T")
_SHOWN = 20  # lines of a list, at most
_LONGEST_LINE = 1 << 24  # characters of a line that is read


class _Escapes(dict[int, str | int]):
    """A table for `str.translate` that escapes what a terminal obeys, or what reorders or hides what it shows.

    These are control characters, separators of lines, marks of direction and what has no width, such as tags, from
    `first` on. The tab and those that join letters and emoji, U+200C and U+200D, stay.
    """

    def __init__(self, escape: Callable[[str], str], first: int = 0) -> None:
        super().__init__()
        self._escape, self._first = escape, first

    def __missing__(self, code: int) -> str | int:
        hidden = unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp") and code not in (9, 0x200C, 0x200D)
        self[code] = self._escape(chr(code)) if hidden and code >= self._first else code
        return self[code]


_IN_TEXT = _Escapes(lambda character: character.encode("unicode_escape").decode())


def one_line(text: str) -> str:
    """A text with a file's name in it as one line: line ends and what a terminal obeys are written as \\n, \\x1b.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return text.translate(_IN_TEXT)


def escape_lines(text: str) -> str:
    """Escape the lines of a text, each as `one_line` does it."""
    return "\n".join(map(one_line, text.split("\n")))


@dataclass(frozen=True)
class Console:
    """The output of a command by its options `--json` and `--quiet`: one result; remarks and progress beside it."""

    json: bool = False
    quiet: bool = False

    @property
    def is_silent(self) -> bool:
        """True if nothing is printed beside results and errors."""
        return self.json or self.quiet

    def emit(self, data: Any, text: str) -> None:
        """Print the result on standard output: `data` as JSON with `--json`, else `text` (nothing if it is empty)."""
        if said := as_json(data) if self.json else escape_lines(text):
            print(said)

    def remark(self, text: str) -> None:
        """Say something beside the result: on standard error, and not at all when silent."""
        if not self.is_silent:
            display.say(escape_lines(text))

    def progress(
        self,
        iterable: Iterable[T] = (),
        total: int | None = None,
        unit: str = "item",
        desc: str | None = None,
        initial: int = 0,
    ) -> ProgressBar[T]:
        """The iterable behind a bar on standard error, or behind a line each half minute where that is no terminal; not
        when silent.

        `unit` is in the singular. `initial` of `total` are done already, and do not count in the rate.
        """
        if total is None and isinstance(iterable, Sized):
            total = len(iterable) or None
        return ProgressBar(iterable, total, unit, desc or "", initial, shown=not self.is_silent)


# The words of a stage, and what it counts.
_STAGES = {
    "keypoints": ("finding keypoints", "picture"),
    "closer_looks": ("looking closer", "pair"),
    "groups": ("comparing in full size", "group"),
}


class PairBars:
    """The bars of a command that scores pairs, and then looks closer at those that deserve it, one below the other.

    `begin` is what `on_stage` of `duplicates_among` takes, and `desc` stands before the first.
    """

    def __init__(self, console: Console, desc: str) -> None:
        self._console = console
        self._bars: dict[str, ProgressBar[Any]] = {}
        self._pairs = self._open_bar(desc, None)

    def begin(self, stage: str, missing: int, known: int) -> Callable[[int], object]:
        """The callback for a stage that has `missing` more to do; it opens the bar."""
        if stage == "pairs":
            self._pairs.total = missing
            return self._add_pairs
        desc, unit = _STAGES[stage]
        if not missing and desc not in self._bars:
            return lambda done: None
        bar = self._bars.get(desc) or self._open_bar(desc, 0, unit)
        bar.total = (bar.total or 0) + missing
        return bar.update

    def __enter__(self) -> PairBars:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in reversed(self._bars.values()):
            bar.close()

    def _open_bar(self, desc: str, total: int | None, unit: str = "pair") -> ProgressBar[Any]:
        bar = self._bars[desc] = self._console.progress(total=total, unit=unit, desc=desc)
        return bar

    def _add_pairs(self, done: int) -> None:
        """So many more pairs are scored, of which some may follow from others."""
        if self._pairs.total is not None and self._pairs.n + done > self._pairs.total:
            self._pairs.total = self._pairs.n + done
        self._pairs.update(done)


def close_bars() -> None:
    """Close every bar that an exception has left open, before anything is said of that."""
    display.close_all()


QUIET = Console(quiet=True)


class _BoundedLines(io.TextIOWrapper):
    """A text file of which no line is read that is too long; it may be a stranger's, also one without an end."""

    path = ""

    def __next__(self) -> str:
        line = self.readline(_LONGEST_LINE + 1)
        if len(line) > _LONGEST_LINE:
            raise ArgumentError(f"{self.path} has a line of more than {_LONGEST_LINE:,} characters")
        if not line:
            raise StopIteration
        return line


@contextmanager
def open_text(path: str, *, newline: str | None = None) -> Iterator[TextIO]:
    """A text file for reading line by line as UTF-8 (a byte-order mark is skipped); `-` is standard input, which stays
    open.

    Raises OSError for what is no regular file, and ArgumentError for an endless line.
    """
    if path == "-":
        yield sys.stdin
        return
    with _BoundedLines(open_own(path, may_link=True), encoding="utf-8-sig", newline=newline) as file:
        file.path = path
        yield file


def read_bytes(path: str) -> bytes:
    """All bytes of a file; `-` is standard input."""
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


def format_table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Format rows under a header in aligned columns, numbers to the right."""
    head, body = [str(cell) for cell in header], [list(row) for row in rows]
    lines = [head, *([one_line(str(cell)) for cell in row] for row in body)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    right = [
        bool(body) and all(isinstance(row[column], int | float) or _is_numeric(row[column]) for row in body)
        for column in range(len(head))
    ]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun in the singular or plural.

    >>> format_count(1, "picture"), format_count(1200, "picture"), format_count(2, "copy", "copies")
    ('1 picture', '1,200 pictures', '2 copies')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def byte_size(count: float) -> str:
    """A number of bytes to three digits, in the unit that has them before and after the point.

    >>> byte_size(1), byte_size(730), byte_size(42_130), byte_size(1.5e9)
    ('1 byte', '730 bytes', '42.1 kB', '1.5 GB')
    """
    if count < 999.5:
        return format_count(round(count), "byte")
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.5:
            return f"{count:.3g} {unit}"
    return f"{count / 1000:,.0f} TB" if count >= 99_950 else f"{count / 1000:.3g} TB"


def format_percent(share: float) -> str:
    """Format a share in percent with two significant digits.

    >>> format_percent(0.0011), format_percent(0.01), format_percent(0.25)
    ('0.11%', '1%', '25%')
    """
    return f"{100 * share:.2g}%" if share < 0.995 else "100%"


def verdict_limits(least: Mapping[Verdict, float]) -> str:
    """The lowest score of each verdict, as a sentence.

    >>> verdict_limits({"same": 0.99, "unsure": 0.5})
    'verdicts: same from 0.99000, unsure from 0.50000 on'
    """
    return f"verdicts: {', '.join(f'{verdict} from {rounded_down(score)}' for verdict, score in least.items())} on"


def rounded_down(score: float) -> str:
    """A lowest score with five digits; rounded up, the score itself would not reach it.

    >>> rounded_down(0.978416), rounded_down(0.57)
    ('0.97841', '0.57000')
    """
    return f"{math.floor(score * 1e5 + 1e-6) / 1e5:.5f}"


def shorten_list(lines: list[str]) -> list[str]:
    """Shorten a list to the first twenty lines, and how many more there are."""
    lines, more = list(map(one_line, lines)), len(lines) - _SHOWN
    return lines if more <= 0 else [*lines[:_SHOWN], f"  and {more:,} more (--json lists all)"]


def format_section(head: str, items: Iterable[str]) -> list[str]:
    """Format a heading and the first lines below it; nothing where there are none."""
    lines = [f"  {item}" for item in items]
    return [head, *shorten_list(lines)] if lines else []


def _is_numeric(cell: object) -> bool:
    try:
        float(str(cell).rstrip("%"))
    except ValueError:
        return False
    return True


def as_json(data: Any, indent: int | None = 2) -> str:
    """A JSON document, indented or on one line, that no terminal obeys."""
    import json  # which `diptych --help` does without

    text = json.dumps(data, ensure_ascii=False, indent=indent, default=_to_json_value)
    return text.translate(_Escapes(lambda character: json.dumps(character)[1:-1], first=127))


def _to_json_value(value: Any) -> Any:
    """The JSON value of a path, or of a NumPy scalar or array."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
