import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from diptych.dedupe.actions import past
from diptych.dedupe.actions import plan as plan_module
from diptych.dedupe.actions.move_file import alone_in
from diptych.dedupe.actions.plan import carry_out, make_plan
from diptych.dedupe.actions.undo_log import read_journal, undo_moves
from diptych.dedupe.duplicates import Group, Member
from diptych.errors import DedupeError
from diptych.pictures.content import picture_id
from diptych.pictures.walk import TRASH


@pytest.fixture
def roots(tmp_path):
    return [tmp_path / "one" / "photos", tmp_path / "two" / "photos"]


@pytest.fixture
def groups(roots, picture):
    """Two groups: a keeper in each root, copies of the first in both."""

    def file(root, name, text):
        path = roots[root] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return picture(path=str(path), root=root, id=picture_id(hashlib.sha256(text.encode()).hexdigest()))

    a, d = file(0, "a.jpg", "a"), file(1, "d.jpg", "d")
    others = (
        Member(file(0, "b/a.jpg", "a"), 1.0, True, replaced_by=a),
        Member(file(1, "c.jpg", "c"), 0.99, False, replaced_by=a),
    )
    return [Group(a, others), Group(d, (Member(file(1, "e.jpg", "e"), 0.99, False, replaced_by=d),))]


def names(plan, tmp_path):
    return [(step.entry.source[-5:], str(Path(step.entry.target).relative_to(tmp_path))) for step in plan.steps]


def test_relative_paths_are_kept_below_the_target_and_roots_apart(groups, roots, tmp_path):
    plan = make_plan(groups, roots, to=tmp_path / "out")
    assert names(plan, tmp_path) == [
        ("a.jpg", "out/photos/b/a.jpg"),
        ("c.jpg", "out/photos-2/c.jpg"),
        ("e.jpg", "out/photos-2/e.jpg"),
    ]
    single = make_plan(groups[1:], roots[1:] * 2, to=tmp_path / "out")
    assert single.steps[0].entry.target.endswith("/e.jpg")
    assert not (tmp_path / "out").exists(), "nothing is done yet"


@pytest.mark.parametrize("leads_to", ["../../elsewhere", TRASH])
def test_no_trash_folder_leads_out_of_its_root_or_in_a_circle(groups, roots, tmp_path, leads_to):
    (tmp_path / "elsewhere").mkdir()
    (roots[1] / TRASH).symlink_to(leads_to)
    with pytest.raises(DedupeError, match="is a link, by which pictures would leave the album; remove it"):
        make_plan(groups, roots, to=None)
    assert not any((tmp_path / "elsewhere").iterdir())


def test_what_is_deleted_goes_into_a_trash_folder_of_its_own_root_first(groups, roots, bytes_of):
    plan = make_plan(groups, roots, to=None)
    assert plan.act == "delete"
    assert all(Path(step.entry.target).is_relative_to(step.root / TRASH) for step in plan.steps)
    for group in groups:
        Path(group.keeper.path).touch()  # a file is as it was when its bytes are
    outcome = carry_out(plan)
    assert (outcome.done, outcome.left) == (3, [])
    assert all(Path(step.entry.target).exists() and not Path(step.entry.source).exists() for step in plan.steps)
    assert all(Path(group.keeper.path).exists() for group in groups)
    assert read_journal(plan.journal).entries == [step.entry for step in plan.steps], "with what was kept"


def test_what_no_other_picture_stands_for_stays_and_each_goes_beside_the_one_that_does(groups, roots, tmp_path):
    first, second = groups[0].others
    left = replace(second, replaced_by=None)
    beside = replace(first, replaced_by=second.picture)
    plan = make_plan([replace(groups[0], others=(beside, left)), groups[1]], roots, to=tmp_path / "out")
    assert [(step.entry.source[-7:], step.entry.keeper) for step in plan.steps] == [
        ("b/a.jpg", second.picture.path),
        ("s/e.jpg", groups[1].keeper.path),
    ]
    carry_out(plan)
    assert Path(second.picture.path).exists()
    assert make_plan([replace(groups[0], others=(left,))], roots, to=tmp_path / "out").steps == []


def test_a_file_that_changed_or_vanished_or_whose_place_is_taken_is_left_alone(groups, roots, tmp_path):
    Path(groups[0].others[0].picture.path).write_text("b")
    Path(groups[0].others[1].picture.path).unlink()
    there = tmp_path / "out" / "photos-2" / "e.jpg"
    there.parent.mkdir(parents=True)
    there.write_text("older")
    outcome = carry_out(make_plan(groups, roots, to=tmp_path / "out"))
    reasons = ["has changed since it was scored", "is gone", f"there is a file at {there} already"]
    assert (outcome.done, [entry["reason"] for entry in outcome.left]) == (0, reasons)
    assert (Path(groups[0].others[0].picture.path).read_text(), there.read_text()) == ("b", "older")


def test_nothing_of_a_group_goes_whose_keeper_changed_or_is_gone(groups, roots, tmp_path):
    Path(groups[0].keeper.path).write_text("b")
    Path(groups[1].keeper.path).unlink()
    outcome = carry_out(make_plan(groups, roots, to=tmp_path / "out"))
    assert outcome.done == 0
    assert [entry["reason"].partition(", ")[0] for entry in outcome.left] == ["the one to keep"] * 3
    assert all(Path(member.picture.path).exists() for group in groups for member in group.others)


def test_a_keeper_that_changes_on_the_way_keeps_the_rest_of_its_group(groups, roots, tmp_path):
    plan = make_plan(groups, roots, to=tmp_path / "out")
    outcome = carry_out(plan, lambda: (roots[0] / "a.jpg").write_text("another"))
    assert outcome.done == 2
    (left,) = outcome.left
    assert left["path"] == str(roots[1] / "c.jpg")
    assert left["reason"] == f"the one to keep, {roots[0] / 'a.jpg'}, has changed since it was scored"


def test_a_choice_goes_instead_beside_what_stays_of_its_group(groups, roots, tmp_path):
    chosen = [groups[0].keeper.path, groups[0].others[0].picture.path]
    plan = make_plan(groups, roots, to=tmp_path / "out", chosen=chosen)
    assert [step.entry.source for step in plan.steps] == chosen
    assert {step.entry.keeper for step in plan.steps} == {groups[0].others[1].picture.path}


def test_a_choice_that_leaves_nothing_or_is_in_no_group_is_refused(groups, roots, tmp_path):
    everything = [groups[1].keeper.path, groups[1].others[0].picture.path]
    with pytest.raises(DedupeError, match=r"all 2 pictures of the group of .*d\.jpg are listed; leave one"):
        make_plan(groups, roots, to=tmp_path / "out", chosen=everything)
    with pytest.raises(DedupeError, match=r"in no group of this run: /x\.jpg; list"):
        make_plan(groups, roots, to=tmp_path / "out", chosen=["/x.jpg"])


@pytest.mark.parametrize("how", ["bind", "fuse"])
@pytest.mark.parametrize("below", ["", "one", "one/two"])
def test_a_target_that_is_one_of_the_folders_by_another_mount_is_refused(how, below, groups, roots, second_view):
    folder = roots[0] / below
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.raises(DedupeError, match=r"lies in .*one/photos, which is searched: the next run would"):
        make_plan(groups, roots, to=roots[0] / "out")
    view = second_view(how, folder)
    for target in (view, view / "new" / "folder"):
        with pytest.raises(DedupeError, match=f"lies in {folder}, which is searched"):
            make_plan(groups, roots, to=target)
    assert make_plan([], roots[1:], to=view).steps == [], "of another folder it may take files"


def test_a_journal_that_cannot_be_written_moves_nothing(groups, roots, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(DedupeError, match=r"the journal .* cannot be written: .*; nothing was moved"):
        carry_out(make_plan(groups, roots, to=tmp_path / "out"))
    assert all(Path(member.picture.path).exists() for group in groups for member in group.others)


def test_a_journal_that_cannot_go_on_stops_and_says_how_to_undo(groups, roots, tmp_path, monkeypatch):
    from diptych.dedupe.actions.undo_log import UndoLog

    note, noted = UndoLog.note, []

    def full(self, entry):
        if noted:
            raise OSError(28, "No space left on device")
        noted.append(entry)
        note(self, entry)

    monkeypatch.setattr(UndoLog, "note", full)
    with pytest.raises(DedupeError, match="No space left on device; 1 were moved, `diptych dedupe --undo"):
        carry_out(make_plan(groups, roots, to=tmp_path / "out"))
    assert Path(groups[1].others[0].picture.path).exists()


def test_two_runs_in_which_each_folder_is_the_others_reference_exclude_each_other(groups, roots, tmp_path):
    first = make_plan(groups[1:], roots, to=tmp_path / "out", references=[tmp_path / "archive"])
    (tmp_path / "archive").mkdir()
    with alone_in([tmp_path / "archive"]), pytest.raises(DedupeError, match="another run is moving pictures in"):
        carry_out(first)
    assert carry_out(first).done == 1
    past = read_journal(first.journal)
    assert past.references == [tmp_path / "archive"]
    with alone_in([tmp_path / "archive"]), pytest.raises(DedupeError, match="another run is moving pictures in"):
        undo_moves(past)
    assert undo_moves(past).done == 1
    assert list((tmp_path / "archive").iterdir()) == []


def test_nothing_is_taken_through_a_link_that_came_into_the_place_of_a_folder(groups, roots, tmp_path):
    (roots[0] / "b").rename(tmp_path / "elsewhere")
    (roots[0] / "b").symlink_to(tmp_path / "elsewhere")
    outcome = carry_out(make_plan(groups, roots, to=tmp_path / "out"))
    assert [one["path"] for one in outcome.left] == [str(roots[0] / "b" / "a.jpg")]
    assert f"leads to {tmp_path}/elsewhere by now, by a link" in outcome.left[0]["reason"]
    assert (tmp_path / "elsewhere" / "a.jpg").exists()


def test_nothing_is_put_back_below_the_place_of_a_disk_that_is_not_mounted(groups, roots, tmp_path, monkeypatch):
    mounted, device_of = True, past.device_of

    def device(folder):
        return -1 if mounted and folder == roots[0] / "b" else device_of(folder)

    monkeypatch.setattr(past, "device_of", device)
    monkeypatch.setattr(plan_module, "device_of", device)
    plan = make_plan(groups, roots, to=None)
    assert carry_out(plan).done == 3
    copy = tmp_path / "copy"
    shutil.copytree(roots[0], copy)
    mounted = False
    outcome = undo_moves(read_journal(plan.journal))
    assert (outcome.done, [one["reason"] for one in outcome.left]) == (
        2,
        [f"{roots[0]}/b, where it is from, was on another disk, which is not there; mount it"],
    )
    own = undo_moves(read_journal(copy / plan.journal.relative_to(roots[0])))
    assert (own.done, (copy / "b/a.jpg").exists()) == (1, True), "a copy may be on one disk"
    mounted = True
    assert undo_moves(read_journal(plan.journal)).done == 1
