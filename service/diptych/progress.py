"""The progress of a command on standard error: bars on a terminal, lines now and then in a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_REDRAWN = 0.1  # seconds between two drawings of a bar, at least
_SAID = 30.0  # seconds between two lines, at least, and before the first


class ProgressBar(Generic[T]):
    """A bar of progress: iterate over it, or call `update` and `close` (at the end of `with` it closes itself).

    A bar that is not shown counts and imports nothing.
    """

    def __init__(
        self, iterable: Iterable[T], total: int | None, unit: str, desc: str, initial: int, *, shown: bool
    ) -> None:
        self._iterable, self._total, self.n = iterable, total, initial
        self.leave = True  # it stays on the screen once it is closed
        self._line: _Bar | _Lines | None = None
        if shown:
            self._line = (_Bar if sys.stderr.isatty() else _Lines)(desc, unit, total, initial)

    @property
    def total(self) -> int | None:
        """The count at which it is full; None if that is unknown."""
        return self._total

    @total.setter
    def total(self, total: int | None) -> None:
        self._total = total
        if self._line is not None:
            self._line.update(total=total)

    def update(self, count: int = 1) -> None:
        """So many more are done."""
        self.n += count
        if self._line is not None:
            self._line.update(completed=self.n)

    def describe(self, text: str) -> None:
        """Write this before the bar."""
        if self._line is not None:
            self._line.update(description=text)

    def close(self) -> None:
        """Draw it for the last time; more than once does nothing."""
        if self._line is not None:
            line, self._line = self._line, None
            line.close(leave=self.leave)

    def __iter__(self) -> Iterator[T]:
        with self:
            for item in self._iterable:
                yield item
                self.update()

    def __enter__(self) -> ProgressBar[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class _Lines:
    """The progress as lines of text. What is over before the first is due says nothing."""

    def __init__(self, desc: str, unit: str, total: int | None, initial: int) -> None:
        self._unit, self._initial = unit, initial
        self._state: dict[str, Any] = {"description": desc, "total": total, "completed": initial}
        self._began = self._last = monotonic()

    def update(self, **state: Any) -> None:
        self._state |= state
        if (now := monotonic()) - self._last >= _SAID:
            self._last = now
            total, rate = self._state["total"], self._rate(now)
            left = f", {_clock((total - self._state['completed']) / rate)} left" if total and rate else ""
            self._say(f"{_rate(rate)}{left}")

    def close(self, *, leave: bool) -> None:
        if leave and self._last > self._began:
            now = monotonic()
            total = self._state["total"]
            end = "stopped" if total and self._state["completed"] < total else "over"
            self._say(f"{_rate(self._rate(now))}, {end} after {_clock(now - self._began)}")

    def _rate(self, now: float) -> float:
        return (self._state["completed"] - self._initial) / max(now - self._began, 1e-9)

    def _say(self, rest: str) -> None:
        before = f"{self._state['description']}: " if self._state["description"] else ""
        count = _count(self._state["completed"], self._state["total"], self._unit)
        print(f"{before}{count}{rest}", file=sys.stderr, flush=True)


class _Bar:
    """A line of the display."""

    def __init__(self, desc: str, unit: str, total: int | None, initial: int) -> None:
        self._line = display.add(desc, unit, total, initial)

    def update(self, **state: Any) -> None:
        display.update(self._line, **state)

    def close(self, *, leave: bool) -> None:
        display.close(self._line, leave=leave)


class Display:
    """The bars of this process that are open, a line each, drawn by rich without a thread of its own."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._open: set[int] = set()
        self._drawn_at = 0.0

    def add(self, desc: str, unit: str, total: int | None, initial: int) -> int:
        """Open a bar, and give its number."""
        if self._progress is None:
            self._progress = _new_progress()
            self._progress.start()
        line = self._progress.add_task(desc, total=total, completed=initial, unit=unit)
        self._open.add(line)
        self._progress.refresh()
        return line

    def update(self, line: int, **state: Any) -> None:
        """Change a bar, if it is open, and draw it if it was not drawn just now."""
        if line in self._open:
            self._progress.update(line, **state)
            if (now := monotonic()) - self._drawn_at >= _REDRAWN:
                self._drawn_at = now
                self._progress.refresh()

    def close(self, line: int, *, leave: bool) -> None:
        """Draw a bar for the last time."""
        if line not in self._open:
            return
        self._open.remove(line)
        self._progress.stop_task(line)
        if not leave:
            self._progress.remove_task(line)
        if not self._open:
            self.close_all()

    def close_all(self) -> None:
        """End the display; the bars stay on the terminal as they are."""
        self._open.clear()
        if self._progress is not None:
            progress, self._progress = self._progress, None
            progress.live.transient = not progress.tasks  # or an empty line would stay
            progress.stop()

    def say(self, text: str) -> None:
        """Print on standard error, above the bars if there are any."""
        if self._progress is None:
            print(text, file=sys.stderr)
        else:
            from rich.text import Text

            self._progress.console.print(Text(text), soft_wrap=True)


def _new_progress() -> Any:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    class Terminal(RichConsole):
        """A terminal that keeps its cursor: a process that is killed could not show it again."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    class Counted(ProgressColumn):
        """The count, the total and the rate."""

        def render(self, task: Any) -> Text:
            rate = _rate(task.finished_speed or task.speed or 0)
            return Text(f"{_count(task.completed, task.total, task.fields['unit'])}{rate}")

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        Counted(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Terminal(file=sys.stderr, highlight=False),
        auto_refresh=False,
        redirect_stdout=False,  # it would come out on standard error
        redirect_stderr=False,  # it would break lines where the terminal ends, in the middle of paths
    )


def _count(done: float, total: float | None, unit: str) -> str:
    of, all_of_them = ("", done) if total is None else (f"/{total:,.0f}", total)
    return f"{done:,.0f}{of} {unit}{'s' * (all_of_them != 1)}"


def _rate(rate: float) -> str:
    return f", {rate:,.1f}/s" if rate >= 0.05 else ""


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


display = Display()
