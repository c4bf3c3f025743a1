"""Journals edited by hand: refused before anything is done."""

import json
from pathlib import Path

import pytest
from aside import put_aside

from diptych.dedupe.actions.undo_log import empty_trash, read_journal, undo_moves
from diptych.errors import DedupeError


@pytest.fixture
def path(tmp_path) -> Path:
    """The journal of a picture that was put aside, and another that was kept."""
    return put_aside(tmp_path) / "journal.jsonl"


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in ("source", "target", "id", "keeper", "keeper_id") for value in (None, 7, ["/a"])),
        *({name: value} for name in ("source", "target", "keeper") for value in ("/a\0b", "/\ud800")),
        *({name: value} for name in ("source", "target") for value in ("", "/")),
        {"other": "x"},
    ],
    ids=str,
)
def test_a_journal_with_a_line_that_names_no_file_is_refused_before_anything_is_done(path, tmp_path, wrong, bytes_of):
    head, line = path.read_text().splitlines()
    path.write_text("\n".join([head, line, json.dumps(json.loads(line) | wrong)]) + "\n")
    before = bytes_of(tmp_path)
    for act in (undo_moves, empty_trash):
        with pytest.raises(DedupeError, match=r"is no journal of `diptych dedupe` \("):
            act(read_journal(path))
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in ("folders", "roots", "mounted") for value in (None, "/a", [None], ["/\0"])),
        *({"at": value} for value in (None, 7, "/\0", "/\ud800")),
        *({"act": value} for value in (None, [], "copy")),
    ],
    ids=str,
)
def test_a_journal_whose_first_line_is_wrong_is_refused(path, wrong):
    head, line = path.read_text().splitlines()
    path.write_text(json.dumps(json.loads(head) | wrong) + f"\n{line}\n")
    with pytest.raises(DedupeError, match=r"is no journal of `diptych dedupe` \("):
        read_journal(path)


def test_the_command_says_so_too(path, diptych, bytes_of):
    head, line = path.read_text().splitlines()
    for number, wrong in enumerate(({"source": None}, {"keeper": None}, {"source": "/\ud800"}, {"source": "/a\0b"})):
        path.write_text("\n".join([head, line, json.dumps(json.loads(line) | wrong)]) + "\n")
        done = diptych("dedupe", ("--undo", "--empty")[number % 2], path)
        assert (done.code, f"{path} is no journal of `diptych dedupe` (" in done.err) == (1, True)
    assert (path.parent / "a.jpg").exists()
