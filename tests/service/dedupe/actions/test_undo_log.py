import errno
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from aside import id_of, put_aside

from diptych.dedupe.actions import undo_log as journal
from diptych.dedupe.actions.move_file import HELD, PART, give_back, held_of, parts_of
from diptych.dedupe.actions.past import Entry, Past
from diptych.dedupe.actions.undo_log import Outcome, UndoLog, empty_trash, read_journal, undo_moves
from diptych.errors import DedupeError
from diptych.pictures.walk import TRASH


def left(path: Path, ending: str) -> Path:
    """A name that a killed move leaves beside a path."""
    return path.with_name(f".{path.name}.{'0' * 32}{ending}")


@pytest.fixture
def moved(tmp_path):
    """Three files that were moved, as a journal tells it."""
    entries, keeper = [], tmp_path / "kept.jpg"
    keeper.write_bytes(b"kept")
    for name in ("a.jpg", "b/c.jpg", "b/d.jpg"):
        source, target = tmp_path / "from" / name, tmp_path / "to" / TRASH / name
        source.parent.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(name.encode())
        entries.append(Entry(str(source), str(target), id_of(name.encode()), str(keeper), id_of(b"kept")))
    return Past("delete", [tmp_path / "to" / TRASH], [tmp_path / "from"], entries)


def test_what_is_noted_is_synced_and_read_again_in_order(tmp_path, monkeypatch):
    path, entries = tmp_path / "new" / "j.jsonl", [Entry(f"/a/{n}\n", f"/b/{n}", "0" * 32) for n in range(3)]
    synced, fsync = [], os.fsync
    with UndoLog.begin(path, "move", [Path("/b")], [Path("/a")]) as journal:
        monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(descriptor) or fsync(descriptor))
        for entry in entries:
            journal.note(entry)
            assert read_journal(path).entries[-1] == entry, "on the disk at once"
            assert len(synced) == len(read_journal(path).entries)
    assert read_journal(path) == Past("move", [Path("/b")], [Path("/a")], entries)


def test_a_last_line_that_was_cut_short_does_not_count(tmp_path):
    path = tmp_path / "j.jsonl"
    with UndoLog.begin(path, "move", [], []) as journal:
        journal.note(Entry("/a", "/b", "0"))
        journal.note(Entry("/c", "/d", "0"))
    path.write_bytes(path.read_bytes()[:-9])
    assert read_journal(path).entries == [Entry("/a", "/b", "0")]


def test_a_journal_is_never_written_over(tmp_path):
    (tmp_path / "j.jsonl").write_text("old")
    with pytest.raises(DedupeError, match="cannot be written: File exists; nothing was moved"):
        UndoLog.begin(tmp_path / "j.jsonl", "move", [], [])


def test_an_empty_journal_and_what_is_no_file_are_told_apart_from_it(tmp_path):
    (tmp_path / "j.jsonl").touch()
    with pytest.raises(DedupeError, match=r"j\.jsonl is empty: nothing was moved"):
        read_journal(tmp_path / "j.jsonl")
    with pytest.raises(DedupeError, match="is no file; name the journal that"):
        read_journal(tmp_path)
    with pytest.raises(DedupeError, match="none cannot be read: No such file"):
        read_journal(tmp_path / "none")


def test_undoing_puts_all_back_clears_the_folders_and_may_be_done_again(moved, tmp_path, bytes_of):
    assert undo_moves(moved) == Outcome(done=3)
    assert bytes_of(tmp_path / "from") == {"a.jpg": b"a.jpg", "b/c.jpg": b"b/c.jpg", "b/d.jpg": b"b/d.jpg"}
    assert list((tmp_path / "to").iterdir()) == [], "the folder that was made goes, the one above it stays"
    assert undo_moves(moved) == Outcome(already=3)


def test_undoing_overwrites_nothing_and_says_so(moved, tmp_path):
    source = Path(moved.entries[1].source)
    source.write_bytes(b"something new")
    outcome = undo_moves(moved)
    assert (outcome.done, source.read_bytes()) == (2, b"something new")
    assert outcome.left[0]["path"] == moved.entries[1].target
    assert "another file" in outcome.left[0]["reason"]
    assert Path(moved.entries[1].target).read_bytes() == b"b/c.jpg"


def test_a_move_that_was_killed_between_its_two_steps_is_undone(moved):
    first, second, third = moved.entries
    os.link(first.target, first.source)
    left(Path(second.source), HELD).write_bytes(Path(second.target).read_bytes())  # across file systems
    left(Path(third.target), PART).write_bytes(b"half")
    assert undo_moves(moved) == Outcome(done=1, already=2)
    assert all(Path(entry.source).exists() and not Path(entry.target).exists() for entry in moved.entries)
    assert parts_of(Path(third.target)) == []


@pytest.mark.parametrize("linked", [True, False])
def test_an_undo_that_was_killed_is_taken_up_again(moved, linked):
    for entry in moved.entries:
        target, held = Path(entry.target), left(Path(entry.target), HELD)
        target.rename(held)
        if linked:
            os.link(held, entry.source)
    assert len(empty_trash(moved).left) == 3
    assert undo_moves(moved) == (Outcome(done=3) if not linked else Outcome(already=3))
    for entry in moved.entries:
        assert id_of(Path(entry.source).read_bytes()) == entry.id
        assert held_of(Path(entry.target)) == []


def test_emptying_deletes_what_was_put_aside_and_nothing_else(moved, tmp_path):
    other = Path(moved.entries[1].target).with_name("other.jpg")
    other.write_bytes(b"not in the journal")
    assert empty_trash(moved, dry_run=True) == Outcome(done=3)
    assert all(Path(entry.target).exists() for entry in moved.entries)
    assert empty_trash(moved) == Outcome(done=3)
    assert [path for path in (tmp_path / "to").rglob("*") if path.is_file()] == [other]
    other.unlink()
    assert empty_trash(moved, dry_run=True) == Outcome(already=3)
    assert other.parent.is_dir(), "a dry run removes no empty folder either"
    assert empty_trash(moved) == Outcome(already=3)
    lost = [entry.source for entry in reversed(moved.entries)]
    assert undo_moves(moved) == Outcome(lost=lost)
    Path(lost[0]).write_bytes(b"another file of that name")
    Path(lost[1]).symlink_to(moved.entries[0].keeper)
    assert undo_moves(moved) == Outcome(lost=lost), "what lies at its place by now is not it"
    Path(lost[2]).write_bytes(b"a.jpg")
    assert undo_moves(moved) == Outcome(already=1, lost=lost[:2])


def test_emptying_leaves_a_move_that_was_cut_short(moved):
    os.link(moved.entries[0].target, moved.entries[0].source)
    outcome = empty_trash(moved)
    assert (outcome.done, outcome.left[0]["path"]) == (2, moved.entries[0].target)
    assert Path(moved.entries[0].source).exists()


def test_what_changed_since_it_was_put_aside_is_neither_deleted_nor_put_back(moved):
    changed = Path(moved.entries[0].target)
    changed.write_bytes(b"edited")
    outcome = empty_trash(moved)
    assert (outcome.done, [one["path"] for one in outcome.left]) == (2, [str(changed)])
    assert outcome.left[0]["reason"] == "it has changed since it was scored; look at it before you delete it"
    outcome = undo_moves(moved)
    assert outcome.left[-1] == {
        "path": str(changed),
        "reason": "it has changed since it was scored; it is left where it is",
    }
    assert changed.read_bytes() == b"edited"


@pytest.mark.parametrize("what", ["gone", "changed", "the file itself"])
def test_the_last_one_is_never_deleted(moved, what):
    keeper = Path(moved.entries[0].keeper)
    keeper.unlink()
    if what == "changed":
        keeper.write_bytes(b"another picture")
    if what == "the file itself":
        os.link(moved.entries[0].target, keeper)
        moved = replace(moved, entries=[replace(moved.entries[0], keeper_id=moved.entries[0].id)])
    outcome = empty_trash(moved)
    assert (outcome.done, outcome.already, len(outcome.left)) == (0, 0, len(moved.entries))
    assert str(keeper) in outcome.left[0]["reason"]
    assert all(Path(entry.target).exists() for entry in moved.entries)


def test_a_journal_that_does_not_say_what_was_kept_can_be_undone_alone(moved, tmp_path, photo_bytes):
    path = tmp_path / "journal.jsonl"
    rows = [{"source": one.source, "target": one.target, "id": id_of(photo_bytes(1))} for one in moved.entries]
    for row in rows:
        Path(row["target"]).write_bytes(photo_bytes(1))
    first = {"journal": 1, "act": "delete", "began": "", "folders": [str(moved.folders[0])]}
    path.write_text("".join(json.dumps(row) + "\n" for row in (first, *rows)))
    with pytest.raises(DedupeError, match="does not say from which folders its files are; name them"):
        read_journal(path)
    named = [tmp_path / "from", tmp_path / "to"]
    with pytest.raises(DedupeError, match="which did not note what was kept"):
        empty_trash(read_journal(path, named))
    assert undo_moves(read_journal(path, named)) == Outcome(done=3)


def test_a_file_that_was_held_when_a_move_was_killed_gets_its_name_back(moved):
    first, second, _ = (Path(entry.source) for entry in moved.entries)
    Path(moved.entries[0].target).rename(left(first, HELD))
    Path(moved.entries[1].target).rename(left(second, HELD))
    second.write_bytes(b"something new")
    assert (empty_trash(moved).done, len(empty_trash(moved).left)) == (1, 2)
    outcome = undo_moves(moved)
    (held,) = held_of(second)
    reason = f"there is another file at {second} by now; move that away first"
    third = moved.entries[2].source
    assert outcome == Outcome(already=1, lost=[third], left=[{"path": str(held), "reason": reason}])
    assert (first.read_bytes(), held.read_bytes()) == (b"a.jpg", b"b/c.jpg")


def test_undoing_never_takes_the_last_name_of_a_file(moved, tmp_path):
    """Whatever was done by hand meanwhile: moved back, or the folder made a link to where the files went."""
    for entry in moved.entries:
        Path(entry.target).rename(entry.source)
    moved = replace(moved, folders=[tmp_path])
    back = replace(moved, entries=[replace(entry, target=entry.source) for entry in moved.entries])
    assert undo_moves(back) == Outcome(already=3)
    alias = tmp_path / "alias"
    alias.symlink_to(tmp_path / "from")
    entries = [replace(one, target=one.source.replace(f"{tmp_path}/from", str(alias))) for one in moved.entries]
    assert undo_moves(replace(moved, entries=entries)) == Outcome(already=3)
    assert all(id_of(Path(entry.source).read_bytes()) == entry.id for entry in moved.entries)


def test_a_link_where_the_file_was_is_left_and_so_is_the_file(moved):
    for entry, leads in zip(moved.entries, ("target", "keeper", "target"), strict=True):
        Path(entry.source).symlink_to(getattr(entry, leads))
    outcome = undo_moves(moved)
    assert (outcome.done, outcome.already, len(outcome.left)) == (0, 0, 3)
    assert all("there is a link at" in one["reason"] for one in outcome.left)
    assert all(id_of(Path(entry.target).read_bytes()) == entry.id for entry in moved.entries)


def test_undoing_in_a_copy_of_the_folder_deletes_nothing(moved):
    for entry in moved.entries:
        Path(entry.source).write_bytes(Path(entry.target).read_bytes())
    outcome = undo_moves(moved)
    assert [one["reason"].partition(";")[0] for one in outcome.left] == [
        f"the same picture is at {entry.source}" for entry in reversed(moved.entries)
    ]
    assert all(Path(entry.target).exists() for entry in moved.entries)


def test_only_what_delete_put_aside_can_be_emptied(moved, tmp_path):
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(b"a.jpg")
    with pytest.raises(DedupeError, match="only what `--delete` or `--action hardlink` put aside can be emptied"):
        empty_trash(replace(moved, act="move"))
    inside = replace(moved, folders=[tmp_path], entries=[replace(moved.entries[0], target=str(photo))])
    assert empty_trash(inside).left[0]["reason"].startswith("it is not in a folder .diptych-trash any more")
    assert photo.exists()


@pytest.mark.parametrize("undoing", [True, False])
def test_an_undo_that_is_killed_while_it_takes_up_another_leaves_no_second_copy(moved, monkeypatch, undoing):
    entry = moved.entries[0]
    source, target = Path(entry.source), Path(entry.target)
    source.write_bytes(target.read_bytes())  # across file systems
    of = target if undoing else source
    of.rename(left(of, HELD))

    def killed(held: Path, path: Path) -> bool:
        give_back(held, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(journal, "give_back", killed)
        undo_moves(moved)
    assert undo_moves(moved).left == []
    assert source.read_bytes() == b"a.jpg"
    assert not target.exists()
    assert not held_of(source) + held_of(target)


def test_a_journal_that_cannot_be_begun_leaves_neither_a_file_nor_a_descriptor(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DedupeError, match="cannot be written: No space left on device; nothing was moved"):
            UndoLog.begin(tmp_path / "j.jsonl", "move", [], [])
    assert not (tmp_path / "j.jsonl").exists()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("how", ["copied without its last line end", "moved with the trash alone", "moved by hand"])
def test_where_the_journal_lies_elsewhere_files_go_where_they_were(tmp_path, how):
    root = tmp_path / "photos"
    trash = put_aside(root)
    path = tmp_path / "journal.jsonl"
    if how == "moved with the trash alone":
        (tmp_path / "big").mkdir()
        path = (root / TRASH).rename(tmp_path / "big" / TRASH) / "1" / "journal.jsonl"
    elif how == "moved by hand":
        for file in trash.iterdir():
            file.rename(root / file.name)
        trash.rmdir()
        path = root / "journal.jsonl"
    else:
        path.write_bytes((trash / "journal.jsonl").read_bytes().rstrip(b"\n"))
        (trash / "journal.jsonl").unlink()
    assert undo_moves(read_journal(path)) == (Outcome(already=1) if how == "moved by hand" else Outcome(done=1))
    assert (root / "a.jpg").read_bytes() == b"a"
