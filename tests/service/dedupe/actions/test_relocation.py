"""Journals whose folders were renamed, copied or replaced: nothing is deleted in another one or put back into it."""

import os
import shutil
from pathlib import Path

import pytest
from aside import id_of

from diptych.dedupe.actions.past import LINKED, Entry
from diptych.dedupe.actions.relocation import is_marked, mark_of
from diptych.dedupe.actions.undo_log import Outcome, UndoLog, empty_trash, read_journal, undo_moves
from diptych.errors import DedupeError
from diptych.pictures.walk import TRASH

STAMP = Path(TRASH, "1")


def gone_from(roots: list[Path], to: Path | None = None, *more: Entry) -> Path:
    """Of each folder `kept.jpg` stays and `a.jpg` was moved, into its trash or `to` a folder; the journal of it, with
    `more` entries.
    """
    tops = [(to / root.name if len(roots) > 1 else to) if to else root / STAMP for root in roots]
    journal = (to or tops[0]) / "journal.jsonl"
    for root, top in zip(roots, tops, strict=True):
        root.mkdir(parents=True)
        top.mkdir(parents=True)
        (root / "kept.jpg").write_bytes(b"kept")
        (top / "a.jpg").write_bytes(b"a")
    folders = tops if to else [root / TRASH for root in roots]
    with UndoLog.begin(journal, "move" if to else "delete", folders, roots) as log:
        for root, top in zip(roots, tops, strict=True):
            places = root / "a.jpg", top / "a.jpg", id_of(b"a"), root / "kept.jpg", id_of(b"kept")
            log.note(Entry(*map(str, places)))
        for entry in more:
            log.note(entry)
    return journal


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != "journal.jsonl"
    }


BEFORE, UNDONE, EMPTIED = {"kept.jpg", f"{STAMP}/a.jpg"}, {"kept.jpg", "a.jpg"}, {"kept.jpg"}


@pytest.mark.parametrize(("act", "after"), [(undo_moves, UNDONE), (empty_trash, EMPTIED)])
@pytest.mark.parametrize("new", ["empty", "other pictures", "a copy"])
def test_a_folder_that_was_renamed_is_acted_on_and_not_the_one_that_came_into_its_place(tmp_path, act, after, new):
    photos = tmp_path / "photos"
    journal = gone_from([photos])
    renamed = photos.rename(tmp_path / "renamed")
    if new == "a copy":
        shutil.copytree(renamed, photos)
    else:
        photos.mkdir()
        if new == "other pictures":
            (photos / "kept.jpg").write_bytes(b"another")
    there = files(photos)
    assert act(read_journal(renamed / journal.relative_to(photos))) == Outcome(done=1)
    assert (files(renamed), files(photos)) == (after, there)


@pytest.mark.parametrize("new", ["nothing", "empty", "other pictures", "some of them"])
def test_what_was_moved_away_is_not_put_back_into_another_folder_of_that_name(tmp_path, new):
    photos, out = tmp_path / "photos", tmp_path / "out"
    more = photos / "b.jpg", out / "b.jpg", id_of(b"b"), photos / "k.jpg", id_of(b"k")
    journal = gone_from([photos], out, Entry(*map(str, more)))
    (photos / "k.jpg").write_bytes(b"k")
    renamed = photos.rename(tmp_path / "renamed")
    if new != "nothing":
        photos.mkdir()
    if new in ("other pictures", "some of them"):
        (photos / "kept.jpg").write_bytes(b"kept" if new == "some of them" else b"another")
    outcome = undo_moves(read_journal(journal))
    assert (outcome.done, [one["path"] for one in outcome.left]) == (0, [str(out / "b.jpg"), str(out / "a.jpg")])
    why = "is not there; mount it" if new == "nothing" else "is another folder by now; give that one its name back"
    assert outcome.left[1]["reason"].startswith(f"{photos}, where it is from, {why}")
    assert (files(out), photos.exists() and "a.jpg" in files(photos)) == ({"a.jpg"}, False)
    shutil.rmtree(photos, ignore_errors=True)
    renamed.rename(photos)
    assert undo_moves(read_journal(journal)).done == 1
    assert files(photos) == UNDONE | {"k.jpg"}


def test_a_folder_whose_number_is_another_after_its_disk_was_connected_again_is_known_by_what_was_kept(tmp_path):
    photos, out = tmp_path / "photos", tmp_path / "out"
    journal = gone_from([photos], out)
    again = photos.rename(tmp_path / "again")
    shutil.copytree(again, photos)  # which has all that was kept, and another number, as on FAT
    assert not is_marked(photos, mark_of(again))
    assert undo_moves(read_journal(journal)) == Outcome(done=1)
    assert files(photos) == UNDONE


@pytest.mark.parametrize(("act", "after"), [(undo_moves, UNDONE), (empty_trash, EMPTIED)])
@pytest.mark.parametrize("changed", [False, True])
def test_the_journal_in_a_copy_of_a_folder_acts_on_the_copy_and_the_other_on_the_original(
    tmp_path, act, after, changed
):
    photos, copy = tmp_path / "photos", tmp_path / "elsewhere" / "copy"
    journal = gone_from([photos])
    shutil.copytree(photos, copy)
    own = copy / journal.relative_to(photos)
    if changed:  # what was kept in the copy is gone there, and still in the original
        (copy / "kept.jpg").unlink()
        expected = {"a.jpg"} if act is undo_moves else {f"{STAMP}/a.jpg"}
        assert act(read_journal(own)).done == (1 if act is undo_moves else 0)
        assert (files(copy), files(photos)) == (expected, BEFORE)
        return
    assert act(read_journal(own)) == Outcome(done=1)
    assert (files(copy), files(photos)) == (after, BEFORE)
    assert act(read_journal(own)) == Outcome(already=1), "the original's stay when the copy has none left"
    assert files(photos) == BEFORE
    assert act(read_journal(journal)) == Outcome(done=1)
    assert (files(copy), files(photos)) == (after, after)


def test_of_several_folders_a_copy_acts_on_those_that_were_copied_too(tmp_path):
    first, second = tmp_path / "pics" / "first", tmp_path / "pics" / "second"
    journal = gone_from([first, second])
    alone, both = tmp_path / "pics" / "alone", tmp_path / "both"
    shutil.copytree(tmp_path / "pics", both)
    shutil.copytree(first, alone)
    outcome = empty_trash(read_journal(alone / STAMP / "journal.jsonl"))
    assert (outcome.done, outcome.left) == (
        1,
        [
            {
                "path": str(second / STAMP / "a.jpg"),
                "reason": f"it is from {second}, and the journal was copied without that folder; name {journal}",
            }
        ],
    )
    assert (files(alone), files(first), files(second)) == (EMPTIED, BEFORE, BEFORE)
    assert empty_trash(read_journal(both / "first" / STAMP / "journal.jsonl")) == Outcome(done=2)
    assert (files(both / "second"), files(second)) == (EMPTIED, BEFORE)
    renamed = (tmp_path / "pics").rename(tmp_path / "renamed")
    assert empty_trash(read_journal(renamed / "first" / STAMP / "journal.jsonl")) == Outcome(done=2)


@pytest.mark.parametrize("act", [undo_moves, empty_trash])
def test_another_folder_that_came_into_the_place_of_a_second_one_is_left(tmp_path, act):
    first, second = tmp_path / "first", tmp_path / "second"
    journal = gone_from([first, second])
    second.rename(tmp_path / "renamed")
    second.mkdir()
    outcome = act(read_journal(journal))
    assert (outcome.done, len(outcome.left)) == (1, 1)
    assert f"{second}, where it is from, is another folder by now" in outcome.left[0]["reason"]
    assert (files(second), files(tmp_path / "renamed")) == (set(), BEFORE)


def test_where_pictures_went_and_its_journal_may_be_copied_and_a_journal_alone_may_not(tmp_path):
    photos, out = tmp_path / "photos", tmp_path / "out"
    journal = gone_from([photos], out)
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    assert undo_moves(read_journal(copy / "journal.jsonl")) == Outcome(done=1)
    assert (files(photos), files(copy), files(out)) == (UNDONE, set(), {"a.jpg"})
    with pytest.raises(DedupeError, match=f"is a copy of the journal {journal}, without the files of that"):
        read_journal(copy / "journal.jsonl")


def test_a_trash_that_was_copied_alone_leaves_the_original_as_it_is(tmp_path):
    photos, other = tmp_path / "photos", tmp_path / "other"
    gone_from([photos])
    shutil.copytree(photos / TRASH, other / TRASH)
    assert undo_moves(read_journal(other / STAMP / "journal.jsonl")) == Outcome(done=1)
    assert (files(photos), files(other)) == (BEFORE, {"a.jpg"})


@pytest.mark.parametrize("kept", [True, False])
def test_a_folder_that_was_moved_to_another_disk_is_known_by_what_was_kept_in_it(tmp_path, kept):
    photos, away = tmp_path / "photos", tmp_path / "away"
    gone_from([photos])
    shutil.copytree(photos, away)
    shutil.rmtree(photos)
    if not kept:
        (away / "kept.jpg").unlink()
    outcome = undo_moves(read_journal(away / STAMP / "journal.jsonl"))
    assert (outcome.done, len(outcome.left)) == ((1, 0) if kept else (0, 1))
    assert not photos.exists()


def test_a_journal_that_went_elsewhere_alone_is_not_for_another_folder_of_that_name(tmp_path):
    photos = tmp_path / "photos"
    journal = gone_from([photos])
    alone = Path(shutil.copy(journal, tmp_path / "journal.jsonl"))
    photos.rename(tmp_path / "renamed")
    photos.mkdir()
    assert [act(read_journal(alone)).done for act in (empty_trash, undo_moves)] == [0, 0]
    assert (files(photos), files(tmp_path / "renamed")) == (set(), BEFORE)


def test_links_that_were_left_are_looked_for_in_the_copy_too(tmp_path):
    photos, copy = tmp_path / "photos", tmp_path / "copy"
    top = photos / STAMP
    top.mkdir(parents=True)
    for path in (photos / "kept.jpg", top / "a.jpg"):
        path.write_bytes(b"a")
    os.link(photos / "kept.jpg", photos / "a.jpg")
    with UndoLog.begin(top / "journal.jsonl", LINKED, [photos / TRASH], [photos]) as log:
        places = photos / "a.jpg", top / "a.jpg", id_of(b"a"), photos / "kept.jpg", id_of(b"a")
        log.note(Entry(*map(str, places)))
    shutil.copytree(photos, copy)
    (copy / "a.jpg").unlink()
    assert empty_trash(read_journal(copy / STAMP / "journal.jsonl")).done == 0, "the copy's own link is not there"
    assert (files(copy), files(photos)) == (BEFORE, BEFORE | {"a.jpg"})


def test_nothing_goes_through_a_link_that_came_into_the_place_of_a_folder(tmp_path):
    photos, elsewhere = tmp_path / "photos", tmp_path / "elsewhere"
    (photos / "b").mkdir(parents=True)
    (photos / STAMP / "b").mkdir(parents=True)
    elsewhere.mkdir()
    (photos / "kept.jpg").write_bytes(b"kept")
    (elsewhere / "a.jpg").write_bytes(b"a")
    journal = photos / STAMP / "journal.jsonl"
    with UndoLog.begin(journal, "delete", [photos / TRASH], [photos]) as log:
        places = photos / "b/a.jpg", photos / STAMP / "b/a.jpg", id_of(b"a"), photos / "kept.jpg", id_of(b"kept")
        log.note(Entry(*map(str, places)))
    (photos / STAMP / "b").rmdir()
    (photos / STAMP / "b").symlink_to(elsewhere)
    for act in (empty_trash, undo_moves):
        outcome = act(read_journal(journal))
        assert (outcome.done, outcome.left[0]["reason"]) == (
            0,
            f"{photos / STAMP / 'b'} leads to {elsewhere} by now, by a link; move the file by hand",
        )
    assert files(elsewhere) == {"a.jpg"}
    (photos / STAMP / "b").unlink()
    (photos / STAMP / "b").mkdir()
    (elsewhere / "a.jpg").rename(photos / STAMP / "b/a.jpg")
    (photos / "b").rmdir()
    (photos / "b").symlink_to(elsewhere)
    assert undo_moves(read_journal(journal)).done == 0
    assert (files(elsewhere), files(photos / STAMP)) == (set(), {"b/a.jpg"})


@pytest.mark.parametrize(("act", "after"), [(undo_moves, UNDONE), (empty_trash, EMPTIED)])
@pytest.mark.parametrize("by", ["its name", "a link to its folder", "a link to the folder of the pictures", "a link"])
def test_a_trash_that_is_a_link_is_undone_and_emptied_by_whatever_name(tmp_path, act, after, by):
    photos, big = tmp_path / "photos", tmp_path / "big"
    journal = gone_from([photos])
    (photos / TRASH).rename(big)
    (photos / TRASH).symlink_to(big)
    link = tmp_path / "link"
    if by == "a link to its folder":
        link.symlink_to(journal.parent)
        journal = link / "journal.jsonl"
    elif by == "a link to the folder of the pictures":
        link.symlink_to(photos)
        journal = link / journal.relative_to(photos)
    elif by == "a link":
        link.symlink_to(journal)
        journal = link
    assert act(read_journal(journal)) == Outcome(done=1)
    assert files(photos) == after
