"""`python -m diptych` is `diptych`."""

import signal
import sys


def run() -> int:
    """Run the command line of this process; returns its exit code.

    While its modules are imported, and once the command is over, Ctrl-C ends it at once and without a word.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from diptych.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
