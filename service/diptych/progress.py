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
        self._iterable, self.total, self.n, self._initial = iterable, total, initial, initial
        self._unit, self._desc = unit, desc
        self.leave = True  # it stays on the screen once it is closed
        self._began = self._said = monotonic()
        self._line = display.open_bar(desc, unit, total, initial) if shown and sys.stderr.isatty() else None
        self._is_written = shown and self._line is None

    def set_total(self, total: int | None) -> None:
        """Set the count at which it is full; None if that is unknown."""
        self.total = total

    def describe(self, text: str) -> None:
        """Write this before the bar."""
        self._desc = text
        self.update(0)

    def update(self, count: int = 1) -> None:
        """So many more are done."""
        self.n += count
        if self._line is not None:
            display.update_bar(self._line, total=self.total, completed=self.n, description=self._desc)
        elif self._is_written and (now := monotonic()) - self._said >= _SAID:
            self._said, rate = now, self._measure_rate(now)
            left = f", {_format_clock((self.total - self.n) / rate)} left" if self.total and rate else ""
            self._write_line(f"{_format_rate(rate)}{left}")

    def close(self) -> None:
        """Draw it for the last time; more than once does nothing."""
        if self._line is not None:
            display.close_bar(self._line, leave=self.leave)
        elif self._is_written and self.leave and self._said > self._began:  # a short one says nothing
            now = monotonic()
            end = "stopped" if self.total and self.n < self.total else "over"
            self._write_line(f"{_format_rate(self._measure_rate(now))}, {end} after {_format_clock(now - self._began)}")
        self._line, self._is_written = None, False

    def _measure_rate(self, now: float) -> float:
        return (self.n - self._initial) / max(now - self._began, 1e-9)

    def _write_line(self, rest: str) -> None:
        before = f"{self._desc}: " if self._desc else ""
        print(f"{before}{_format_count(self.n, self.total, self._unit)}{rest}", file=sys.stderr, flush=True)

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


class Display:
    """The bars of this process that are open, a line each, drawn by rich without a thread of its own."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._drawn_at = 0.0

    def open_bar(self, desc: str, unit: str, total: int | None, initial: int) -> tuple[Any, int]:
        """Open a bar; returns rich's display and its number there."""
        if self._progress is None:
            self._progress = _new_progress()
            self._progress.start()
        task = self._progress.add_task(desc, total=total, completed=initial, unit=unit)
        self._progress.refresh()
        return self._progress, task

    def update_bar(self, bar: tuple[Any, int], **state: Any) -> None:
        """Change a bar, if it is open, and draw it if it was not drawn just now."""
        progress, task = bar
        if progress is self._progress:
            progress.update(task, **state)
            if (now := monotonic()) - self._drawn_at >= _REDRAWN:
                self._drawn_at = now
                progress.refresh()

    def close_bar(self, bar: tuple[Any, int], *, leave: bool) -> None:
        """Draw a bar for the last time."""
        progress, task = bar
        if progress is self._progress:
            progress.stop_task(task)
            if not leave:
                progress.remove_task(task)
            if all(one.stop_time is not None for one in progress.tasks):
                self.close_all()

    def close_all(self) -> None:
        """End the display; the bars stay on the terminal as they are."""
        if self._progress is not None:
            progress, self._progress = self._progress, None
            progress.live.transient = not progress.tasks  # or an empty line would stay
            progress.stop()

    def say(self, text: str) -> None:
        """Print on standard error, above the bars if there are any."""
        if self._progress is None:
            print(text, file=sys.stderr)
        else:
            self._progress.console.print(text, markup=False, emoji=False, soft_wrap=True)


display = Display()


def _new_progress() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    class Counted(ProgressColumn):
        """The count, the total and the rate."""

        def render(self, task: Any) -> Text:
            rate = _format_rate(task.finished_speed or task.speed or 0)
            return Text(f"{_format_count(task.completed, task.total, task.fields['unit'])}{rate}")

    console = Console(file=sys.stderr, highlight=False)
    console.show_cursor = lambda show=True: False  # a process that is killed could not show it again
    described = TextColumn("{task.description}", markup=False)
    columns = described, BarColumn(), Counted(), TimeElapsedColumn(), TimeRemainingColumn()
    # Redirected, standard output would come out on standard error, and its lines would break within paths.
    return Progress(*columns, console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


def _format_count(done: float, total: float | None, unit: str) -> str:
    of, all_of_them = ("", done) if total is None else (f"/{total:,.0f}", total)
    return f"{done:,.0f}{of} {unit}{'s' * (all_of_them != 1)}"


def _format_rate(rate: float) -> str:
    return f", {rate:,.1f}/s" if rate >= 0.05 else ""


def _format_clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
