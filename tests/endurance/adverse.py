"""A command that meets something in its middle: `python adverse.py HOOK WHAT COMMAND...` runs `diptych COMMAND...`.

When the function HOOK ("module:name") is called first, Ctrl-C is pressed (WHAT is "interrupt"), or the file or folder
WHAT is taken away.
"""

import os
import shutil
import signal
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path

from diptych.cli.main import main

INTERRUPT = "interrupt"
MET = "the hook was called"


def arm(hook: str, what: str) -> None:
    module, _, name = hook.partition(":")
    *owners, last = name.split(".")
    owner = reduce(getattr, owners, import_module(module))
    original = vars(owner)[last]
    inner = original.__func__ if isinstance(original, classmethod | staticmethod) else original
    met = []

    def struck(*args, **options):
        if not met:
            met.append(True)
            print(MET, file=sys.stderr, flush=True)
            strike(what)
        return inner(*args, **options)

    setattr(owner, last, type(original)(struck) if inner is not original else struck)


def strike(what: str) -> None:
    if what == INTERRUPT:
        os.kill(os.getpid(), signal.SIGINT)
    elif Path(what).is_dir():
        shutil.rmtree(what)
    else:
        Path(what).unlink(missing_ok=True)


if __name__ == "__main__":
    hook, what, *words = sys.argv[1:]
    if hook:
        arm(hook, what)
    sys.exit(main(words))
