import shutil
import threading
from pathlib import Path

import pytest
from folders import counts, held, names, put

from diptych import Collection
from diptych.pictures.walk import Tree


@pytest.fixture
def text(diptych, artifact, store):
    """`text(folder)` runs the command without --json."""
    return lambda *words: diptych("index", "sync", *words, "--store", store, "--model", artifact, "--threads", 1)


@pytest.fixture
def many(tmp_path, photo_bytes):
    """A folder with 30 pictures."""
    for seed in range(30):
        put(tmp_path / "many" / f"{seed}.png", photo_bytes(seed, (40, 40), "PNG"))
    return tmp_path / "many"


def test_a_folder_that_has_become_empty_is_refused_until_it_is_allowed(text, sync, folder, store):
    text(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    before = held(store)
    result = text(folder)
    assert (result.code, result.out) == (1, "")
    assert f"{folder} has no picture any more, and 8 of the collection lay there; none was removed" in result.err
    assert "--allow-removal" in result.err
    dry = text(folder, "--dry-run")
    assert dry.code == 1
    assert "it would be refused without --allow-removal" in dry.out
    assert held(store) == before
    assert counts(sync(folder, "--allow-removal")) == {"removed": 8}


def test_half_of_a_large_folder_may_not_go_unasked_though_other_pictures_came(text, sync, many, store, photo_bytes):
    sync(many)
    before = held(store)
    for seed in range(21):
        (many / f"{seed}.png").unlink()
    put(many / "new.png", photo_bytes(99, (40, 40), "PNG"))
    result = text(many)
    assert (result.code, result.out) == (1, "")
    assert f"21 of the 30 pictures that lay in {many} are not there any more; none was removed" in result.err
    assert held(store) == before, "nothing was added either"
    assert counts(sync(many, "--allow-removal")) == {"new": 1, "removed": 21, "unchanged": 9}


def test_a_renamed_folder_is_no_removal(sync, many, store, cost):
    sync(many)
    (many / "all").mkdir()
    for path in many.glob("*.png"):
        path.rename(many / "all" / path.name)
    cost()
    assert counts(sync(many)) == {"moved": 30}
    assert cost() == (30, 0)


def test_a_disk_that_goes_in_the_middle_removes_nothing(sync, many, store, monkeypatch):
    sync(many)
    below = Tree.below

    def unmounting(roots, exclusion):
        found = below(roots, exclusion)
        many.rename(many.with_name("away"))
        return found

    monkeypatch.setattr(Tree, "below", unmounting)
    before = held(store)
    result = sync(many, "--checksum")
    assert (result.code, result.json["error"]["code"]) == (1, "sync")
    assert "does not exist; nothing was changed" in result.json["error"]["message"]
    assert held(store) == before


def test_while_another_process_writes_it_is_refused_with_its_name_and_a_hint(text, folder, store, scorer):
    with Collection.open(store, scorer, create=True):
        result = text(folder)
    assert result.code == 1
    assert "is being written by process" in result.err
    assert "A service follows folders itself: diptych serve --sync FOLDER" in result.err


def test_dry_run_and_every_are_wrong_together_and_seconds_are_above_zero(text, folder):
    for words in (("--dry-run", "--every", 3), ("--every", 0), ("--every", "soon")):
        assert text(folder, *words).code == 2


def test_following_says_a_line_a_change_and_goes_on_after_failures(
    spawn, artifact, folder, store, photo_bytes, tmp_path
):
    process = spawn(*("index", "sync", folder, "--store", store, "--model", artifact, "--threads", 1, "--every", 0.1))
    said: list[str] = []
    errors: list[str] = []
    for stream, lines in ((process.stdout, said), (process.stderr, errors)):
        threading.Thread(target=lambda s=stream, to=lines: to.extend(iter(s.readline, "")), daemon=True).start()

    def until(lines, number, part):
        for _ in range(600):
            if len(lines) >= number:
                assert part in lines[number - 1], lines
                return
            threading.Event().wait(0.05)
        raise AssertionError(f"no line {number} with {part!r}: {said} {errors}")

    until(errors, 1, f"following {folder} every 0.1 s; Ctrl-C ends it")
    until(said, 1, "8 new")
    put(folder / "9.jpg", photo_bytes(9))
    until(said, 2, "1 new, 0 changed")
    (folder / "9.jpg").rename(folder / "nine.jpg")
    until(said, 3, "1 moved")
    folder.rename(tmp_path / "away")
    until(errors, 2, "does not exist; nothing was changed; trying again every 0.1 s")
    (tmp_path / "away").rename(folder)
    until(said, 4, "0 removed, 9 unchanged")
    (folder / "1.jpg").write_text("a text")
    until(said, 5, "1 removed, 8 unchanged, 1 refused")
    until(errors, 3, "1.jpg is not in a format that can be read")
    process.terminate()
    assert process.wait(60) == 0
    assert (len(said), len(errors)) == (5, 3)
    assert "nine.jpg" in names(store, folder)


def test_a_picture_whose_file_went_to_a_trash_can_is_removed_and_it_is_said_why(sync, store, folder):
    sync(folder)
    (folder / ".Trash-1000").mkdir()
    (folder / "1.jpg").rename(folder / ".Trash-1000" / "1.jpg")
    kept = sync(folder, "--include-hidden")
    assert counts(kept) == {"moved": 1, "unchanged": 7}
    result = sync(folder)
    assert counts(result) == {"removed": 1, "unchanged": 7}
    assert (result.json["left_out"], result.json["closed"]) == ({".Trash-1000": 1}, [])
    assert len(held(store)) == 7


def test_what_an_earlier_version_took_from_hidden_folders_goes_with_the_reason_and_not_all_at_once(
    sync, text, store, folder, scorer
):
    with Collection.open(store, scorer, create=True) as collection:
        collection.add(sorted(folder.rglob("*.jpg")))
    moved = []
    for id, path in held(store).items():
        assert path is not None
        moved.append((id, path, path.replace(str(folder), f"{folder}/.hidden")))
        put(Path(moved[-1][2]), Path(path).read_bytes())
        Path(path).unlink()
    with Collection.open(store, scorer) as collection:
        collection.store.relocate(moved)
    refused = sync(folder)
    assert (refused.code, len(held(store))) == (1, 8)
    message = refused.json["error"]["message"]
    assert "(8 of them hidden, in a trash can or the like, or by --exclude; --include-hidden keeps such)" in message
    assert counts(sync(folder, "--include-hidden")) == {"unchanged": 8}
    gone = text(folder, "--allow-removal")
    assert "8 removed (8 of them hidden, " in gone.out
    assert "8 pictures left out: 8 in .hidden; --include-hidden takes them in" in gone.out
    assert not held(store)
