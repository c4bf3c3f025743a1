"""The signals that end a running process."""

from __future__ import annotations

import os
import signal
import sys


def end_orderly() -> None:
    """Let SIGTERM end the process with code 0 through `SystemExit`, and a closed terminal (SIGHUP) and SIGQUIT be a
    SIGTERM. What is ignored, as SIGHUP is under nohup, stays so.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for other in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(other) != signal.SIG_IGN:
            signal.signal(other, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
