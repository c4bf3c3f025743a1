import hashlib
import os
import shutil
from pathlib import Path

import pytest

from diptych import Collection
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.scan import list_picture_files, resolve_folders, resolve_roots, scan_files
from diptych.errors import DedupeError
from diptych.pictures.content import describe, picture_id
from diptych.pictures.walk import TRASH
from diptych_runtime.errors import PictureError


def never(path, reason):
    pytest.fail(f"{path} was refused: {reason}")


@pytest.fixture
def look(tmp_path, scorer):
    """`look(folder, ...)` is a survey of folders and what was refused, with one store for all calls."""

    def run(*folders):
        refused = []
        roots = resolve_folders(folders)
        files = list_picture_files(roots, lambda path, reason: refused.append((path, reason)))
        with (
            Collection.open(tmp_path / "store", scorer, create=True) as collection,
            PairCache(tmp_path / "store" / "dedupe.sqlite", scorer.runtime.revision) as pair_cache,
        ):
            seen = scan_files(roots, files, collection, pair_cache)
            assert collection.store.known_ids([one.id for one in seen.pictures]) == {one.id for one in seen.pictures}
        return seen, [*refused, *seen.unread.items()]

    return run


@pytest.fixture
def decoded(monkeypatch):
    """How often a picture was decoded."""
    calls = []
    monkeypatch.setattr(
        "diptych.collection.ingest.describe", lambda *args, **words: calls.append(1) or describe(*args, **words)
    )
    return calls


def names(folder, *roots):
    return [
        file.path.removeprefix(f"{folder}/") for file in list_picture_files(resolve_folders(roots or [folder]), never)
    ]


def test_files_are_listed_by_path_a_content_is_decoded_once_and_what_is_unchanged_not_read_again(
    photos, look, decoded, monkeypatch
):
    seen, refused = look(photos)
    paths = [picture.path.removeprefix(f"{photos}/") for picture in seen.pictures]
    assert paths == sorted(["a/1.jpg", "a/2.jpg", "a/3.jpg", "b/1 again.jpg", "b/c/1 once more.jpg", "b/2.jpg"])
    assert (len({picture.id for picture in seen.pictures}), len(decoded), refused) == (3, 3, [])
    assert (seen.new, seen.changed, seen.gone) == (6, 0, 0)
    assert seen.pictures[0].id == picture_id(hashlib.sha256((photos / "a/1.jpg").read_bytes()).hexdigest())
    monkeypatch.setattr("diptych.pictures.file_info.read_bytes", lambda *_: pytest.fail("it was read"))
    again, _ = look(photos)
    assert (again.pictures, again.new, again.changed, again.gone) == (seen.pictures, 0, 0, 0)


def test_files_of_one_size_and_time_that_swap_their_names_are_read_again(photos, look):
    first, third = photos / "a/1.jpg", photos / "a/3.jpg"
    size = max(first.stat().st_size, third.stat().st_size)
    for path in (first, third):
        path.write_bytes(path.read_bytes().ljust(size, b"\0"))  # what follows a JPEG is passed over
        os.utime(path, (1_000_000_000, 1_000_000_000))
    before = {picture.path: picture.id for picture in look(photos)[0].pictures}
    first.rename(photos / "spare")
    third.rename(first)
    (photos / "spare").rename(third)
    seen, _ = look(photos)
    after = {picture.path: picture.id for picture in seen.pictures}
    assert (after[str(first)], after[str(third)]) == (before[str(third)], before[str(first)])
    assert seen.changed == 2


def test_new_changed_and_removed_files_are_noticed_and_only_they_cost(photos, look, decoded, photo_bytes):
    look(photos)
    (photos / "a/3.jpg").unlink()
    (photos / "a/2.jpg").write_bytes(photo_bytes(20))
    (photos / "new.jpg").write_bytes(photo_bytes(21))
    (photos / "b/2.jpg").rename(photos / "b/two.jpg")
    decoded.clear()
    seen, _ = look(photos)
    assert (seen.new, seen.changed, seen.gone, len(decoded)) == (2, 1, 2, 2)
    assert {path.name for path in photos.rglob("*.jpg")} == {Path(one.path).name for one in seen.pictures}


def test_unreadable_files_are_told_with_reasons_and_the_others_are_there(photos, look, bad_pictures, photo_bytes):
    with open(os.fsencode(photos) + b"/caf\xe9.jpg", "wb") as file:  # noqa: PTH123
        file.write(photo_bytes(9))
    shutil.copytree(bad_pictures["empty"].parent, photos / "bad")
    shutil.copy(photos / "bad/text.jpg", photos / "bad/text2.jpg")
    seen, refused = look(photos)
    assert len(seen.pictures) == 6
    reasons = {os.path.basename(path): reason for path, reason in refused}  # noqa: PTH119
    assert reasons.pop(r"caf\udce9.jpg").endswith(" has a name that is not UTF-8; rename it")
    assert reasons.keys() == {"empty.jpg", "text.jpg", "text2.jpg", "truncated.jpg", "bomb.png", "pixel.png"}
    assert "damaged or cut short" in reasons["truncated.jpg"]
    assert "megapixels" in reasons["bomb.png"]


def test_links_and_second_names_are_no_copies(photos):
    (photos / "link.jpg").symlink_to(photos / "a/1.jpg")
    (photos / "folder-link").symlink_to(photos / "a")
    os.link(photos / "a/1.jpg", photos / "z.jpg")
    assert "a/1.jpg" in names(photos)
    assert not {"link.jpg", "folder-link/1.jpg", "z.jpg"} & set(names(photos))


@pytest.mark.parametrize("how", ["bind", "overlay", "overlay whose inodes are marked", "fuse"])
def test_a_file_that_is_seen_through_another_folder_is_no_copy(how, photos, second_view):
    files = names(photos, photos)
    view = second_view(how, photos)
    assert names(photos, photos, view) == files
    assert len(list_picture_files(resolve_folders([view, photos]), never)) == len(files)


def test_a_folder_named_twice_or_within_another_counts_once(photos):
    everything = names(photos)
    assert names(photos, photos, photos / "a", photos / "b/..", photos) == everything
    roots = resolve_folders([photos / "a", photos])
    assert {file.path: file.root for file in list_picture_files(roots, never)}[str(photos / "a/1.jpg")] == 0


def test_trash_and_what_is_no_picture_by_its_name_is_passed_by(photos, photo_bytes):
    for name in (f"{TRASH}/x/1.jpg", f"b/{TRASH}/1.jpg", "notes.txt", "raw.cr2"):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).write_bytes(photo_bytes(1))
    assert len(names(photos)) == 6


def sides(roots, references):
    """The names of the files outside of the references, and within."""
    folders, kept = resolve_roots(roots, references)
    files = list_picture_files(folders, never, kept)
    names = {inside: {Path(one.path).name for one in files if one.reference is inside} for inside in (False, True)}
    return names[False], names[True]


def test_a_reference_below_a_folder_is_that_part_of_it(photos):
    assert sides([photos], [photos / "b"]) == ({"1.jpg", "2.jpg", "3.jpg"}, {"1 again.jpg", "1 once more.jpg", "2.jpg"})
    assert sides([photos / "b"], [photos / "a"]) == (
        {"1 again.jpg", "1 once more.jpg", "2.jpg"},
        {"1.jpg", "2.jpg", "3.jpg"},
    )
    os.link(photos / "a/1.jpg", photos / "b/0 first.jpg")
    assert "0 first.jpg" not in sides([photos / "b"], [photos / "a"])[0], "it has another name in a reference"
    files = list_picture_files([photos / "b"], never, [photos / "a", photos / "b" / "c"])
    assert {(one.root, one.reference) for one in files} == {(0, False), (1, True), (2, True)}


@pytest.mark.parametrize("how", ["itself", "below", "by a link"])
def test_a_folder_in_a_reference_is_refused(photos, how):
    folder = {"itself": photos, "below": photos / "a", "by a link": photos.parent / "link"}[how]
    if how == "by a link":
        folder.symlink_to(photos / "a")
    with pytest.raises(DedupeError, match="where nothing is changed; name a folder outside of it"):
        resolve_roots([folder], [photos])
    with pytest.raises(DedupeError, match=r"a reference, where nothing is changed"):
        resolve_roots([photos / "b"], [photos / "a"], to=photos / "a" / "new")


def test_a_trash_folder_is_no_reference_and_does_not_lead_into_one(photos):
    (photos / "b" / TRASH).symlink_to(photos / "a")
    with pytest.raises(DedupeError, match="where nothing is changed"):
        resolve_roots([photos / "b"], [photos / "a"])
    (photos / "b" / TRASH).unlink()
    (photos / "b" / TRASH / "1").mkdir(parents=True)
    with pytest.raises(DedupeError, match="lies in the trash of a run"):
        resolve_roots([photos / "a"], [photos / "b" / TRASH / "1"])


@pytest.mark.parametrize("how", ["bind", "fuse", "overlay"])
def test_a_reference_that_is_seen_through_another_folder_is_one(photos, second_view, how):
    view = second_view(how, photos / "a")
    if how != "overlay":  # whose folders are others
        with pytest.raises(DedupeError, match="where nothing is changed"):
            resolve_roots([view], [photos])
    with pytest.raises(DedupeError, match=r"no picture .* that is not in a reference folder"):
        list_picture_files([view], never, [photos / "a"])
    assert sides([photos], [view])[0] == {"1 again.jpg", "1 once more.jpg", "2.jpg"}


def test_a_folder_needs_pictures_and_a_reference_needs_none(photos, tmp_path):
    (tmp_path / "empty").mkdir()
    assert sides([photos], [tmp_path / "empty"])[1] == set()
    with pytest.raises(DedupeError, match=r"there is no picture \(.*\) that is not in a reference folder in .*empty"):
        list_picture_files([tmp_path / "empty"], never, [photos])
    folder = Path(os.fsdecode(os.fsencode(tmp_path / "n") + b"\xff"))
    folder.mkdir()
    for wrong, reason in (
        (tmp_path / "nowhere", "nowhere does not exist"),
        (photos / "a/1.jpg", "1.jpg is a file"),
        (folder, "is not UTF-8; rename it"),
    ):
        with pytest.raises((DedupeError, PictureError), match=reason):
            resolve_roots([photos], [wrong])


def test_a_file_that_vanishes_after_it_was_listed_is_told(photos, tmp_path, scorer):
    roots = resolve_folders([photos])
    files = list_picture_files(roots, never)
    (photos / "a/1.jpg").unlink()
    with Collection.open(tmp_path / "s", scorer, create=True) as collection, PairCache(None, "x") as pair_cache:
        seen = scan_files(roots, files, collection, pair_cache)
    assert (len(seen.pictures), list(seen.unread)) == (5, [str(photos / "a/1.jpg")])
