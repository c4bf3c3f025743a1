import ast
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from diptych.console import (
    Console,
    PairBars,
    byte_size,
    close_bars,
    escape_lines,
    format_table,
    one_line,
    open_text,
    read_bytes,
)
from diptych_runtime.errors import ArgumentError


def test_results_go_to_standard_output_as_text_or_as_one_json_document(capsys):
    data = {"count": np.int64(3), "scores": np.array([0.5], np.float32), "path": Path("a/b"), "name": "Zoë"}
    Console().emit(data, "three")
    assert capsys.readouterr().out == "three\n"
    Console(json=True).emit(data, "three")
    assert json.loads(capsys.readouterr().out) == {"count": 3, "scores": [0.5], "path": str(Path("a/b")), "name": "Zoë"}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (999_400, "999 kB"), (999_999, "1 MB"), (2.5e15, "2,500 TB")],
)
def test_bytes_have_the_unit_that_fits(count, text):
    assert byte_size(count) == text


@pytest.mark.parametrize(
    ("console", "shown"), [(Console(), True), (Console(quiet=True), False), (Console(json=True), False)]
)
def test_remarks_and_bars_are_shown_unless_silent_and_never_change_the_items(console, shown, terminal):
    stderr = terminal()
    console.remark("hello")
    assert list(console.progress(range(3), 3, "pair", "scoring")) == [0, 1, 2]
    assert ("hello" in stderr.getvalue(), "scoring" in stderr.getvalue()) == (shown, shown)


def test_a_remark_stands_above_the_bars_as_one_line_and_the_cursor_is_never_hidden(terminal):
    stderr = terminal()
    remark = "a/long/path\udcff " * 30
    with Console().progress(total=7, unit="picture", desc="[1] reading", initial=3) as bar:
        with Console().progress(unit="pair", desc="scoring") as inner:
            inner.total = 2
            inner.update(2)
        Console().remark(remark)
        bar.describe("[2] reading")
        bar.update(4)
        assert (bar.n, bar.total, inner.n) == (7, 7, 2)
    said = stderr.getvalue()
    assert f"{remark}\n" in said
    assert "[1] reading" in said
    assert "[2] reading" in said
    assert "2/2 pairs" in said
    assert "7/7 pictures" in said
    assert "\x1b[?25" not in said  # which hides or shows it


def test_pairs_keypoints_and_closer_looks_have_a_bar_each(terminal):
    stderr = terminal()
    with PairBars(Console(), "comparing") as bars:
        tick = bars.begin("pairs", 30, 10)
        tick(30)
        tick(4)  # pairs that follow from others
        bars.begin("keypoints", 0, 3)(0)
        assert "finding keypoints" not in stderr.getvalue()
        bars.begin("keypoints", 4, 3)(4)
        for missing in (3, 0, 2):
            bars.begin("closer_looks", missing, 7)(missing)
        bars.begin("groups", 2, 0)(2)
    said = stderr.getvalue()
    assert "34/34 pairs" in said
    assert "4/4 pictures" in said
    assert "5/5 pairs" in said
    assert "2/2 groups" in said
    assert said.index("comparing") < said.index("finding keypoints") < said.index("looking closer")


def test_a_bar_that_an_exception_left_open_is_closed_before_anything_is_said(terminal):
    stderr = terminal()
    bar = Console().progress(total=2)
    assert not stderr.getvalue().endswith("\n")
    close_bars()
    said = stderr.getvalue()
    assert said.endswith("\n")
    bar.update()
    bar.close()
    assert stderr.getvalue() == said


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


def test_a_text_is_read_from_regular_files_alone_and_no_line_without_an_end(tmp_path):
    (tmp_path / "link.csv").symlink_to("/dev/zero")
    with pytest.raises(OSError, match=r"link\.csv is no file"), open_text(str(tmp_path / "link.csv")):
        pass
    (tmp_path / "long.csv").write_bytes(b"a,b\n" + bytes(1 << 25))
    with open_text(str(tmp_path / "long.csv")) as file:
        assert next(file) == "a,b\n"
        with pytest.raises(ArgumentError, match=r"long\.csv has a line of more than 16,777,216 characters"):
            next(file)


def test_a_table_sets_numbers_to_the_right_and_words_to_the_left():
    rows = [("a", 5), ("longer", "12.5%")]
    assert format_table(("name", "share"), rows) == "name    share\na           5\nlonger  12.5%"


NAME = "a\nb\x1b[2Jc\x9b31m\r\u202e\u200b.jpg"
SHOWN = r"a\nb\x1b[2Jc\x9b31m\r\u202e\u200b.jpg"


def test_a_name_is_one_line_that_no_terminal_obeys(capsys):
    assert one_line(NAME) == SHOWN
    assert one_line("Zoë\t日本 👩‍💻 می\u200cشود.jpg") == "Zoë\t日本 👩‍💻 می\u200cشود.jpg"
    assert escape_lines(f"x\n{NAME}") == "x\na\n" + SHOWN[3:]
    hidden = "".join(
        map(chr, [0x1B, 0x9B, 0xAD, 0x61C, 0x180E, 0x202E, 0x2060, 0x2064, 0x206A, 0x206F, 0xE0001, 0xE007F])
    )
    assert ast.literal_eval(f"'{one_line(hidden)}'") == hidden
    Console(json=True).emit([hidden], "")
    said = capsys.readouterr().out
    assert said.isascii()
    assert json.loads(said) == [hidden]
    Console().emit({}, "\x1b[2J\x07")
    Console().remark("\x1b]0;title\x07")
    assert capsys.readouterr() == ("\\x1b[2J\\x07\n", "\\x1b]0;title\\x07\n")
