"""Journals that are damaged or were edited by hand: refused before anything is done."""

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
        *({name: value} for name in ("source", "target", "id", "keeper", "keeper_id") for value in (None, ["/a"])),
        *({name: value} for name in ("source", "target", "keeper") for value in ("/a\0b", "/\ud800")),
        *({name: value} for name in ("source", "target") for value in ("", "/", "a.jpg", "/a/../b")),
        {"other": "x"},
    ],
    ids=str,
)
def test_a_line_that_names_no_file_is_refused_before_anything_is_done(path, tmp_path, wrong, bytes_of, diptych):
    head, line = path.read_text().splitlines()
    path.write_text("\n".join([head, line, json.dumps(json.loads(line) | wrong)]) + "\n")
    before = bytes_of(tmp_path)
    for act in (undo_moves, empty_trash):
        with pytest.raises(DedupeError, match=r"is no journal of `diptych dedupe` \("):
            act(read_journal(path))
    if "other" in wrong:
        done = diptych("dedupe", "--empty", path)
        assert (done.code, done.err.count("error: "), "Traceback" in done.err) == (1, 1, False)
    assert bytes_of(tmp_path) == before


_MARKS = ([], {"roots": "x"}, {"roots": [[1]]}, {"roots": [], "folder": [2]}, {"roots": [["a", 0, 1]], "folder": 7})


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in ("folders", "roots", "mounted") for value in (None, "/a", [None], ["/\0"])),
        *({"at": value} for value in (None, 7, "/\0", "/\ud800")),
        *({"act": value} for value in (None, [], "copy")),
        *({"at": "/j", "marks": marks} for marks in _MARKS),
        {"journal": 10**4000},
        {"journal": 9},
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_journal_whose_first_line_is_wrong_is_refused(path, wrong):
    head, line = path.read_text().splitlines()
    path.write_text(json.dumps(json.loads(head) | wrong) + f"\n{line}\n")
    with pytest.raises(DedupeError, match=r"is no journal of `diptych dedupe` \(|is a journal of format [91]"):
        read_journal(path)


@pytest.mark.parametrize(
    "content",
    ["a text\n", "[]\n", '{"journal": 1}\n', "[" * 200_000, '{"a":' * 100_000, "{" + " " * (1 << 25), "\0" * 100],
    ids=lambda text: text[:10],
)
def test_what_is_no_journal_is_refused_whatever_its_size_and_depth(path, content):
    head = path.read_text().splitlines()[0] + "\n"
    for text in (content, head + content + "\n"):
        path.write_text(text)
        with pytest.raises(DedupeError, match=r"is no journal of `diptych dedupe` \("):
            read_journal(path)
