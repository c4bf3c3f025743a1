"""Hard links in place of exact copies: what goes lies in the trash, and no moment loses anything."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from aside import id_of

from diptych.dedupe.actions import hard_link
from diptych.dedupe.actions.hard_link import LINK, links_of, move_and_link
from diptych.dedupe.actions.move_file import ChangedError
from diptych.dedupe.actions.plan import carry_out, make_plan
from diptych.dedupe.actions.undo_log import Outcome, empty_trash, read_journal, undo_moves
from diptych.dedupe.duplicates import Group, Member
from diptych.errors import DedupeError
from diptych.pictures.walk import TRASH

LINKED = os.link
DATA = b"picture"


@pytest.fixture
def pair(tmp_path):
    """(keeper, exact copy of it, where that goes)."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, name in enumerate(("kept.jpg", "copy.jpg")):
        (folder / name).write_bytes(DATA)
        os.utime(folder / name, ns=(10**18, 10**18 + number))
    return folder / "kept.jpg", folder / "copy.jpg", folder / TRASH / "now" / "copy.jpg"


@pytest.fixture
def group(pair, picture):
    keeper, copy, _ = pair
    one, other = (picture(path=str(path), id=id_of(DATA)) for path in (keeper, copy))
    return Group(one, (Member(other, 1.0, True, replaced_by=one),))


@pytest.fixture
def linked(group, pair):
    """The journal of a pair whose copy is a link by now."""
    plan = make_plan([group], [pair[0].parent], to=None, link=True)
    assert carry_out(plan) == Outcome(done=1)
    return plan.journal


def go(pair) -> None:
    keeper, copy, target = pair
    move_and_link(copy, target, id_of(DATA), keeper)


def listing(pair) -> list[str]:
    return sorted(path.name for path in pair[0].parent.iterdir() if path.name != TRASH)


def untouched(pair) -> bool:
    """Both files are as they were, and nothing else is there."""
    keeper, copy, target = pair
    whole = keeper.read_bytes() == copy.read_bytes() == DATA and not keeper.samefile(copy)
    is_alone = listing(pair) == ["copy.jpg", "kept.jpg"] and not os.path.lexists(target)
    return whole and is_alone and copy.stat().st_mtime_ns == 10**18 + 1


def private(copy: Path) -> Path:
    """A name that a killed run gives a link beside the copy."""
    return copy.with_name(f".{copy.name}.{'0' * 32}{LINK}")


def test_the_copy_is_in_the_trash_with_its_time_and_its_name_shows_the_same_bytes(pair):
    go(pair)
    keeper, copy, target = pair
    assert copy.samefile(keeper)
    assert (target.read_bytes(), target.stat().st_mtime_ns, target.stat().st_nlink) == (DATA, 10**18 + 1, 1)
    assert listing(pair) == ["copy.jpg", "kept.jpg"]


@pytest.mark.parametrize(
    ("stop", "at_end", "said"),
    [
        (OSError(errno.EXDEV, "cross-device"), False, "as the one to keep, .*kept.jpg, lies on another file system"),
        (OSError(errno.EPERM, "no links here"), False, "as the one to keep, .*kept.jpg, takes none: no links here"),
        (OSError(errno.EMLINK, "Too many links"), True, "stays, as no hard link can take its place: Too many links"),
        (KeyboardInterrupt(), True, None),
    ],
)
def test_where_no_link_can_be_made_or_take_its_place_the_file_is_where_it_was(pair, monkeypatch, stop, at_end, said):
    def refused(old: Path, new: Path, **words: bool) -> None:
        if not at_end or (Path(new) == pair[1] and old.name.endswith(LINK)):
            raise stop
        LINKED(old, new, **words)

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises((ChangedError, KeyboardInterrupt), match=said):
        go(pair)
    assert untouched(pair)


def test_a_link_that_other_people_could_read_or_write_takes_no_place(pair, monkeypatch):
    pair[1].chmod(0o600)
    with pytest.raises(ChangedError, match="has another owner or other permissions than the one to keep"):
        go(pair)
    pair[1].chmod(pair[0].stat().st_mode)
    if hasattr(os, "setxattr"):
        monkeypatch.setattr(os, "getxattr", lambda path, *_, **__: Path(path).suffix.encode())
        with pytest.raises(ChangedError, match="other permissions"):
            go(pair)
    assert untouched(pair)


def test_a_file_that_is_its_keeper_already_is_left_alone(pair):
    keeper, copy, target = pair
    copy.unlink()
    LINKED(keeper, copy)
    with pytest.raises(ChangedError, match=r"is the same file as the one to keep, .*, already"):
        go(pair)
    assert (listing(pair), copy.samefile(keeper), target.exists()) == (["copy.jpg", "kept.jpg"], True, False)


@pytest.mark.parametrize("how", ["the keeper is edited", "it is gone", "it is a link", "the copy is edited"])
def test_where_either_changed_both_stay_as_they_are(pair, how):
    keeper, copy, target = pair
    if how == "it is gone":
        keeper.unlink()
    elif how == "it is a link":
        keeper.rename(keeper.with_name("moved.jpg"))
        keeper.symlink_to("moved.jpg")
    else:
        (keeper if how == "the keeper is edited" else copy).write_bytes(b"edited")
    before = listing(pair)
    with pytest.raises(ChangedError, match=r"the one to keep, |^has changed since it was scored"):
        go(pair)
    assert (copy.read_bytes(), target.exists()) == (b"edited" if how == "the copy is edited" else DATA, False)
    assert (copy.stat().st_nlink, listing(pair)) == (1, before)


def test_what_comes_into_the_place_meanwhile_is_not_overwritten(pair, monkeypatch):
    keeper, copy, target = pair

    def late(old: Path, new: Path, **words: bool) -> None:
        if Path(new) == copy:
            copy.write_bytes(b"something new")
        LINKED(old, new, **words)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ChangedError, match=f"is {target} now, as another file has come into its place"):
        go(pair)
    assert (copy.read_bytes(), target.read_bytes(), keeper.read_bytes()) == (b"something new", DATA, DATA)
    assert listing(pair) == ["copy.jpg", "kept.jpg"]


def test_the_last_name_of_a_picture_is_not_taken_even_where_everything_else_vanished(pair, monkeypatch):
    """The keeper is deleted and the copy edited in the moment between both looks."""
    keeper, copy, _ = pair

    def gone(*_: object) -> None:
        keeper.unlink()
        copy.write_bytes(b"edited")
        raise ChangedError("has changed since it was scored")

    monkeypatch.setattr(hard_link, "move_file", gone)
    with pytest.raises(ChangedError):
        go(pair)
    (link,) = links_of(copy)
    assert (copy.read_bytes(), link.read_bytes()) == (b"edited", DATA)


@pytest.mark.parametrize(
    "how", ["as it was", "the link is gone", "a killed run left a link", "a killed undo left it aside"]
)
def test_undoing_gives_the_file_back_and_may_be_done_again(pair, linked, how):
    keeper, copy, _ = pair
    if how == "the link is gone":
        copy.unlink()
    elif how == "a killed run left a link":
        LINKED(keeper, private(copy))
        assert "a move was cut short" in empty_trash(read_journal(linked)).left[0]["reason"]
    elif how == "a killed undo left it aside":
        copy.rename(private(copy))
    assert undo_moves(read_journal(linked)) == Outcome(done=1)
    assert untouched(pair)
    assert undo_moves(read_journal(linked)) == Outcome(already=1)


@pytest.mark.parametrize("how", ["copy.jpg", "kept.jpg", "aside", "deleted", "saved anew"])
def test_undoing_after_an_edit_in_place_or_without_the_keeper_gives_the_original_back(pair, linked, how):
    keeper, copy, _ = pair
    if how == "aside":
        copy.rename(private(copy))
    if how in ("deleted", "saved anew"):
        keeper.unlink()
    if how != "deleted":
        (copy if how == "copy.jpg" else keeper).write_bytes(b"edited")
    assert undo_moves(read_journal(linked)) == Outcome(done=1)
    assert (copy.read_bytes(), copy.stat().st_mtime_ns) == (DATA, 10**18 + 1)
    assert how == "deleted" or keeper.read_bytes() == b"edited"
    assert listing(pair) == (["copy.jpg"] if how == "deleted" else ["copy.jpg", "kept.jpg"])


@pytest.mark.parametrize("how", ["saved anew", "saved anew aside", "edited, its other name unknown", "trash edited"])
def test_undoing_takes_no_edit_away(pair, linked, how):
    keeper, copy, _ = pair
    target = Path(read_journal(linked).entries[0].target)
    if how == "trash edited":
        target.write_bytes(b"edited")
    elif how == "edited, its other name unknown":
        keeper.rename(keeper.with_name("moved.jpg"))
        copy.write_bytes(b"edited")
    else:
        copy.unlink()
        (private(copy) if how == "saved anew aside" else copy).write_bytes(b"edited")
    outcome = undo_moves(read_journal(linked))
    assert (outcome.done, len(outcome.left)) == (0, 1)
    assert copy.read_bytes() == (DATA if how == "trash edited" else b"edited")
    assert target.read_bytes() == (b"edited" if how == "trash edited" else DATA)
    assert (links_of(copy), len(listing(pair))) == ([], 2)


@pytest.mark.parametrize("has_keeper", [True, False])
def test_emptying_frees_the_trash_and_the_name_stays(pair, linked, has_keeper):
    if not has_keeper:
        pair[0].unlink()
    assert empty_trash(read_journal(linked)) == Outcome(done=1)
    assert [path.name for path in linked.parent.iterdir()] == ["journal.jsonl"]
    assert not has_keeper or empty_trash(read_journal(linked)) == Outcome(already=1)
    assert undo_moves(read_journal(linked)) == Outcome(already=1)
    assert pair[1].read_bytes() == DATA
    pair[1].unlink()
    pair[1].write_bytes(b"another file of that name")
    assert undo_moves(read_journal(linked)) == Outcome(lost=[str(pair[1])])


@pytest.mark.parametrize("link", ["edited", "removed", "a symbolic link"])
def test_nothing_is_emptied_whose_link_is_not_there_any_more(pair, linked, link):
    keeper, copy, _ = pair
    if link == "edited":
        keeper.write_bytes(b"edited")
    else:
        copy.unlink()
        if link == "a symbolic link":
            copy.symlink_to(keeper)
    past = read_journal(linked)
    outcome = empty_trash(past)
    assert (outcome.done, len(outcome.left)) == (0, 1)
    assert outcome.left[0]["reason"].startswith(f"what was kept in its place, {copy}, ")
    assert Path(past.entries[0].target).read_bytes() == DATA


def test_files_of_one_time_are_told_apart(pair, group, monkeypatch):
    """A link changes its inode in the moment in which the copy is renamed, with coarse times in the same one."""
    os.utime(pair[1], ns=(10**18, 10**18))
    plan = make_plan([group], [pair[0].parent], to=None, link=True)
    monkeypatch.setattr("diptych.dedupe.actions.undo_log.same_file", lambda *_: True)
    monkeypatch.setattr("diptych.dedupe.actions.move_file.same_file", lambda *_: True)
    assert carry_out(plan) == Outcome(done=1)
    assert empty_trash(read_journal(plan.journal)) == Outcome(done=1)


def test_only_exact_copies_become_links_each_to_the_first_of_its_bytes(picture):
    def file(name: str, id: str, **facts):
        return picture(path=f"/p/{name}.jpg", id=id, **facts)

    kept, same, other, again, alone = (
        file(*one) for one in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2"), ("e", "3"))
    )
    stands = ((same, kept), (other, None), (again, other), (alone, kept))
    members = tuple(Member(one, 0.99, one is same, replaced_by=instead) for one, instead in stands)
    plan = make_plan([Group(kept, members)], [Path("/p")], to=None, link=True)
    assert [(step.entry.source, step.entry.keeper) for step in plan.steps] == [
        ("/p/b.jpg", "/p/a.jpg"),
        ("/p/d.jpg", "/p/c.jpg"),
    ]
    assert (plan.act, plan.unlinked) == ("hardlink", 1)
    chosen = make_plan([Group(kept, members)], [Path("/p")], to=None, link=True, chosen=["/p/a.jpg", "/p/e.jpg"])
    assert [(step.entry.source, step.entry.keeper) for step in chosen.steps] == [("/p/a.jpg", "/p/b.jpg")]
    assert chosen.unlinked == 1


def test_no_link_leads_into_a_reference_nor_to_a_file_that_may_have_another_name_in_one(group, pair, picture, tmp_path):
    kept = picture(path="/r/a.jpg", id="1", root=1, reference=True)
    first, second = (picture(path=f"/p/{name}.jpg", id="1") for name in "bc")
    copies = Group(kept, tuple(Member(one, 1.0, True, replaced_by=kept) for one in (first, second)))
    plan = make_plan([copies], [Path("/p")], to=None, link=True, references=[Path("/r")])
    assert [(step.entry.source, step.entry.keeper) for step in plan.steps] == [("/p/c.jpg", "/p/b.jpg")]
    assert plan.unlinked == 1
    reference, roots = tmp_path / "reference", [pair[0].parent]
    reference.mkdir()
    os.link(pair[0], reference / "kept.jpg_original")
    with_it = make_plan([group], roots, to=None, link=True, references=[reference])
    assert (with_it.steps, with_it.unlinked) == ([], 1)
    assert len(make_plan([group], roots, to=None, link=True).steps) == 1
    (tmp_path / "sub").symlink_to(reference)
    with pytest.raises(DedupeError, match=r"reference, a reference, where nothing is changed; choose another folder"):
        make_plan([group], roots, to=tmp_path / "sub", references=[reference])
