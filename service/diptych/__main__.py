"""`python -m diptych` is `diptych`."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current folder, whose files must not pass for modules

import os
import signal


def run() -> int:
    """Run the command line of this process; returns its exit code.

    Names of files are in UTF-8, whatever the locale says. While its modules are imported, and once the command is over,
    Ctrl-C ends it at once and without a word. Python processes that it starts import nothing from the current folder.
    """
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        # By the encoding of another locale, ASCII for one, no name of a file in UTF-8 can be told from a broken one.
        words = [sys.executable, "-P", *sys.orig_argv[1:]]
        os.execve(words[0], words, {**os.environ, "PYTHONUTF8": "1"})
    os.environ["PYTHONSAFEPATH"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from diptych.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
