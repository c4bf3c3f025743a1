"""The format of log lines, in which there are names of files."""

from __future__ import annotations

import logging

from diptych.console import visible


class VisibleFormatter(logging.Formatter):
    """A formatter of log lines, which have names of files in them, that lets no terminal obey these."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging does it, with `visible`."""
        return visible(super().format(record))
