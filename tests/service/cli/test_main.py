import subprocess
import sys
from importlib.metadata import version

import pytest

from diptych import errors
from diptych.cli import commands
from diptych.cli import main as cli
from diptych.cli.main import build_commands, main
from diptych_runtime.errors import DiptychError

COMMANDS = ("serve", "index", "search", "score", "rerank", "dedupe", "doctor", "demo")


def test_help_lists_every_command(diptych):
    result = diptych("--help")
    assert result.code == 0
    assert all(f"\n  {command} " in result.out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_json_and_quiet(diptych, command):
    result = diptych(command, *(["add"] if command == "index" else []), "--help")
    assert result.code == 0
    assert "--json" in result.out
    assert "--quiet" in result.out


def test_the_version_is_the_packages(diptych):
    assert diptych("--version").out == f"diptych {version('diptych')}\n"


def test_python_dash_m_is_the_same_command():
    found = subprocess.run([sys.executable, "-m", "diptych", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout == f"diptych {version('diptych')}\n"


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["nonsense"],
        ["search"],
        ["search", "a.jpg", "--store", "s", "--top", "0"],
        ["search", "a.jpg", "--store", "s", "--top", "many"],
        ["index"],
        ["index", "add", "--store", "s"],
        ["score"],
        ["rerank", "a.jpg"],
        ["index", "rebuild", "--store", "s", "--allow-removal"],
        ["serve", "--port", "70000"],
        ["serve", "--store", "s", "--collections", "r"],
    ],
)
def test_wrong_usage_exits_with_2_and_one_line_of_error(diptych, wrong):
    result = diptych(*wrong)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("usage: diptych")
    assert "error: " in result.err.splitlines()[-1]


def test_an_error_is_one_line_and_exit_code_1(diptych, tmp_path):
    result = diptych("index", "stats", "--store", tmp_path / "none")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("diptych: error: ")
    assert result.err.count("\n") == 1


def test_a_model_that_there_is_not_is_wrong_usage_with_a_suggestion(diptych, tmp_path, photo_bytes):
    (tmp_path / "a.jpg").write_bytes(photo_bytes(1))
    done = diptych("score", tmp_path / "a.jpg", tmp_path / "a.jpg", "--model", "phot")
    assert done.code == 2
    assert "did you mean photo" in done.err
    assert done.err.count("\n") == 1


def test_with_json_an_error_is_the_envelope(diptych, tmp_path):
    result = diptych("index", "stats", "--store", tmp_path / "none", "--json")
    assert result.code == 1
    assert set(result.json) == {"error"}
    assert result.json["error"]["code"] == "store"
    assert result.json["error"]["type"] == "StoreError"
    assert "holds no collection" in result.json["error"]["message"]


def test_ctrl_c_is_130_and_one_line(diptych, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("diptych.cli.doctor.open_scorer", stop)
    result = diptych("doctor")
    assert (result.code, result.out, result.err) == (130, "", "diptych: interrupted\n")


def test_memory_that_runs_out_is_one_line_and_exit_code_1(diptych, monkeypatch):
    def fill(*_):
        raise MemoryError

    monkeypatch.setattr("diptych.cli.doctor.open_scorer", fill)
    result = diptych("doctor")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("diptych: error: memory ran out; allow more (`ulimit -v`")
    assert result.err.count("\n") == 1
    assert diptych("doctor", "--json").json["error"]["code"] == "no_memory"


def test_a_broken_package_does_not_take_the_other_commands_away(monkeypatch, capsys):
    class Broken:
        name, value = "broken", "nowhere:register"

        def load(self):
            raise ImportError("no such thing")

    class Whole:
        name, value = "service", "diptych.cli.commands:register"

        def load(self):
            return commands.register

    monkeypatch.setattr(cli, "entry_points", lambda group: [Broken(), Whole()])
    assert "search" in build_commands().below
    assert "nowhere:register cannot be loaded: no such thing" in capsys.readouterr().err


def test_every_error_of_the_service_is_a_diptych_error_with_a_code():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert len(kinds) == 31
    assert all(issubclass(kind, DiptychError) and kind.code != "error" for kind in kinds)


def test_main_takes_its_arguments_from_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["diptych", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("diptych ")
