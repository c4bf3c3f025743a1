"""The format of log lines, in which there are names of files, and how many of a kind there may be."""

from __future__ import annotations

import logging
import math
import time

from diptych.console import escape_lines


class RateLimit(logging.Filter):
    """A filter that lets one warning of a kind pass in `seconds`, with the number of those it held back before."""

    def __init__(self, seconds: float = 1.0) -> None:
        super().__init__()
        self.seconds = seconds
        self._passed: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True for a record that passes; its kind is its text before its values are filled in."""
        if record.levelno < logging.WARNING:
            return True
        kind, now = str(record.msg), time.monotonic()
        last, held_back = self._passed.get(kind, (-math.inf, 0))
        if now - last < self.seconds:
            self._passed[kind] = last, held_back + 1
            return False
        self._passed[kind] = now, 0
        if held_back:
            record.msg = f"{kind} (and {held_back:,} more like it)"
        return True


class VisibleFormatter(logging.Formatter):
    """A formatter of log lines, which have names of files in them, that lets no terminal obey these."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging does it, with `escape_lines`."""
        return escape_lines(super().format(record))
