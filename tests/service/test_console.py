import argparse
import io
import json
import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from diptych.console import (
    VisibleFormatter,
    command,
    emit,
    one_line,
    open_text,
    progress,
    read_bytes,
    remark,
    table,
    visible,
)


@pytest.fixture
def parsed():
    def parse(*words: str) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        command(parser.add_subparsers(), "count", "count things", lambda args: 0)
        return parser.parse_args(["count", *words])

    return parse


def test_every_command_has_json_and_quiet_and_knows_what_to_run(parsed):
    args = parsed("--json", "-q")
    assert (args.json, args.quiet, args.run(args)) == (True, True, 0)


def test_results_go_to_standard_output_as_text_or_as_one_json_document(parsed, capsys):
    data = {"count": np.int64(3), "scores": np.array([0.5], np.float32), "path": Path("a/b"), "name": "Zoë"}
    emit(parsed(), data, "three")
    assert capsys.readouterr().out == "three\n"
    emit(parsed("--json"), data, "three")
    assert json.loads(capsys.readouterr().out) == {"count": 3, "scores": [0.5], "path": str(Path("a/b")), "name": "Zoë"}


def test_remarks_go_to_standard_error_and_not_at_all_when_quiet(parsed, capsys):
    for words, said in (((), "hello\n"), (("--quiet",), ""), (("--json",), "")):
        remark(parsed(*words), "hello")
        assert capsys.readouterr() == ("", said)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "stream", "shown"),
    [((), Terminal, True), ((), io.StringIO, False), (("--quiet",), Terminal, False), (("--json",), Terminal, False)],
)
def test_progress_is_drawn_on_a_terminal_only_and_never_changes_the_items(words, stream, shown, parsed, monkeypatch):
    stderr = stream()
    monkeypatch.setattr(sys, "stderr", stderr)
    assert list(progress(range(3), parsed(*words), 3, "pair", "scoring")) == [0, 1, 2]
    assert ("scoring" in stderr.getvalue()) is shown


def test_a_dash_is_standard_input(monkeypatch, tmp_path):
    stdin = io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n"), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    with open_text("-") as file:
        assert file.readline() == "a,b\n"
    stdin.seek(0)
    assert read_bytes("-") == b"a,b\n1,2\n"
    path = tmp_path / "pairs.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\n")
    with open_text(str(path)) as file:
        assert file.read() == "a,b\n"
    assert read_bytes(str(path)).startswith(b"\xef\xbb\xbf")


def test_a_table_sets_numbers_to_the_right_and_words_to_the_left():
    assert table(("name", "share"), [("a", 5), ("longer", "12.5%")]).splitlines() == [
        "name    share",
        "a           5",
        "longer  12.5%",
    ]
    assert table(("name",), []) == "name"


NAME = "a\nb\x1b[2Jc\x9b31m\r\u202e.jpg"
SHOWN = r"a\nb\x1b[2Jc\x9b31m\r\u202e.jpg"


def test_a_name_is_one_line_that_no_terminal_obeys():
    assert one_line(NAME) == SHOWN
    assert one_line("Zoë\t日本 👩‍💻.jpg") == "Zoë\t日本 👩‍💻.jpg"
    assert visible(f"x\n{NAME}") == "x\na\n" + SHOWN[3:]


def test_whatever_is_said_goes_to_the_terminal_as_such_lines(parsed, capsys):
    emit(parsed(), {}, "\x1b[2J\x07")
    remark(parsed(), "\x1b]0;title\x07")
    assert capsys.readouterr() == ("\\x1b[2J\\x07\n", "\\x1b]0;title\\x07\n")
    emit(parsed("--json"), {"path": NAME}, "")
    said = capsys.readouterr().out
    assert json.loads(said) == {"path": NAME}
    assert not set(said) & {"\x1b", "\x9b", "\r"}
    record = logging.LogRecord("x", logging.WARNING, "", 1, "%s", ("\x1b[2J",), None)
    assert VisibleFormatter("diptych: %(message)s").format(record) == "diptych: \\x1b[2J"
