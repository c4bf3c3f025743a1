import subprocess
import sys
from importlib.metadata import version

import pytest
from typed import command_names, options

from diptych import errors
from diptych.cli import commands
from diptych.cli import main as cli
from diptych.cli.main import build_commands
from diptych_runtime.errors import DiptychError


def test_help_lists_every_command_and_every_command_has_json_and_quiet(diptych):
    result = diptych("--help")
    assert result.code == 0
    names = [name for name in command_names() if name]
    assert {name.split()[0] for name in names} <= {line.split()[0] for line in result.out.splitlines() if line}
    for name in names:
        assert {"--json", "--quiet"} <= {opt for option in options(name) for opt in option.opts}, name
    shown = diptych("index", "add", "--help")
    assert (shown.code, "--keep-originals" in shown.out, "--quiet" in shown.out) == (0, True, True)


def test_the_version_is_the_packages_and_python_dash_m_is_the_same_command(diptych):
    said = f"diptych {version('diptych')}\n"
    assert diptych("--version").out == said
    found = subprocess.run([sys.executable, "-m", "diptych", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout == said


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "nonsense",
        "search",
        "search a.jpg --top many",
        "index",
        "index rebuild --allow-removal",
        "serve --port 70000",
    ],
)
def test_wrong_usage_exits_with_2_and_one_line_of_error(diptych, wrong):
    result = diptych(*wrong.split())
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("Usage: diptych")
    assert "error: " in result.err.splitlines()[-1]


def test_an_error_is_one_line_and_exit_code_1_and_with_json_the_envelope(diptych, tmp_path):
    result = diptych("index", "stats", "--store", tmp_path / "none")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("diptych: error: ")
    assert result.err.count("\n") == 1
    result = diptych("index", "stats", "--store", tmp_path / "none", "--json")
    assert (result.code, set(result.json)) == (1, {"error"})
    assert (result.json["error"]["code"], result.json["error"]["type"]) == ("store", "StoreError")
    assert "holds no collection" in result.json["error"]["message"]


def test_a_model_that_there_is_not_is_wrong_usage_with_a_suggestion(diptych, tmp_path, photo_bytes):
    (tmp_path / "a.jpg").write_bytes(photo_bytes(1))
    done = diptych("score", tmp_path / "a.jpg", tmp_path / "a.jpg", "--model", "phot")
    assert (done.code, "did you mean photo" in done.err, done.err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt, 130, "diptych: interrupted\n"),
        (MemoryError, 1, "diptych: error: memory ran out; allow more (`ulimit -v`"),
    ],
)
def test_ctrl_c_and_want_of_memory_are_one_line(diptych, monkeypatch, raised, code, said):
    def stop(*_):
        raise raised

    monkeypatch.setattr("diptych.cli.options.open_scorer", stop)
    result = diptych("doctor")
    assert (result.code, result.out, result.err.count("\n")) == (code, "", 1)
    assert result.err.startswith(said)
    if raised is MemoryError:
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
    assert "search" in build_commands().commands
    assert "nowhere:register cannot be loaded: no such thing" in capsys.readouterr().err


def test_every_error_of_the_service_is_a_diptych_error_with_a_code():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    assert len(kinds) == 30
    assert all(issubclass(kind, DiptychError) and kind.code != "error" for kind in kinds)
