"""Ctrl-C at any moment of a command: also while its modules are imported, and more than once."""

import signal
import subprocess
import sys

import pytest

from diptych.cli.options import open_scorer

# What a shell runs, which gets Ctrl-C at the first look for a module (or the first but some).
IMPORTS = """
import signal, sys
from diptych.__main__ import run
class Interrupted:
    left = int(sys.argv.pop(1))
    def find_spec(self, *_):
        Interrupted.left -= 1
        if Interrupted.left == 0:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
sys.exit(run())
"""


@pytest.mark.parametrize("import_", [1, 40])
def test_ctrl_c_while_modules_are_imported_ends_a_command_without_a_word(environment, import_):
    command = [sys.executable, "-c", IMPORTS, str(import_), "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_that_is_ignored_stays_so(environment):
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    command = [sys.executable, "-c", ignoring + IMPORTS, "1", "--version"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).returncode == 0


def test_ctrl_c_once_more_while_a_command_shuts_down_ends_it_without_a_word(environment):
    again = "import atexit, signal; atexit.register(signal.raise_signal, signal.SIGINT)"
    command = [sys.executable, "-c", again + IMPORTS, "0", "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_ctrl_c_waits_until_onnx_runtime_is_imported(monkeypatch):
    before, imported = signal.signal(signal.SIGINT, signal.default_int_handler), []

    def importing():
        signal.raise_signal(signal.SIGINT)
        imported.append(True)

    monkeypatch.setattr("diptych_runtime.session.import_onnxruntime", importing)
    try:
        with pytest.raises(KeyboardInterrupt):
            open_scorer("photo-small", "cpu", 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert imported
