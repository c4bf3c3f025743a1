"""Journals that a stranger wrote: whatever they say, they act in their own folder, on pictures, and run nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from aside import id_of, put_aside

from diptych.dedupe.actions.undo_log import empty_trash, read_journal, undo_moves
from diptych.errors import DedupeError
from diptych.pictures.walk import TRASH

ENTRY = b"[Desktop Entry]\nExec=sh -c evil\n"


@pytest.fixture
def home(tmp_path, photo_bytes, monkeypatch) -> Path:
    """A home with an album in its downloads, the journal of which a test writes with `journal`."""
    home = tmp_path / "home"
    (home / "Downloads/album" / TRASH / "1").mkdir(parents=True)
    (home / ".config/autostart").mkdir(parents=True)
    (home / "Pictures").mkdir()
    (home / "Pictures/own.jpg").write_bytes(photo_bytes(1))
    (home / "Downloads/album/kept.jpg").write_bytes(photo_bytes(2))
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def album(home) -> Path:
    return home / "Downloads/album"


@pytest.fixture
def journal(album):
    """`journal(entries, roots=..., folders=...)` writes the album's journal of pairs of a source and a target."""

    def write(*entries: tuple[Path | str, Path | str], act: str = "delete", at: Path | None = None, **first) -> Path:
        path = at or album / TRASH / "1" / "journal.jsonl"
        places = {"folders": [str(album / TRASH)], "roots": [str(album)]}
        kept = {"keeper": str(album / "kept.jpg"), "keeper_id": id_of((album / "kept.jpg").read_bytes())}
        kept = {name: first.pop(name, value) for name, value in kept.items()}
        lines = [{"journal": 2, "act": act, "at": str(path), **places, **first}]
        for source, target in entries:
            id = id_of(Path(target).read_bytes()) if Path(target).is_file() else "0" * 32
            lines.append({"source": str(source), "target": str(target), "id": id, **kept})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


@pytest.fixture
def assert_unharmed(tmp_path, bytes_of, diptych):
    """`assert_unharmed(journal)` undoes and empties by the command line, and checks that no file moved."""

    def check(path: Path, *named: Path) -> str:
        before, said = bytes_of(tmp_path), ""
        for act in ("--undo", "--empty"):
            done = diptych("dedupe", *named, act, path)
            assert done.code == 1
            assert "Traceback" not in done.err
            said += done.out + done.err
        after = bytes_of(tmp_path)
        assert after == before
        return said

    return check


def put(album: Path, name: str, data: bytes) -> Path:
    path = album / TRASH / "1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


EVERYWHERE = [["/"], ["HOME"], ["HOME", "ALBUM"], ["PARENT"], ["HOME/.config/autostart"], ["ALBUM"], []]


@pytest.mark.parametrize("roots", EVERYWHERE, ids=str)
@pytest.mark.parametrize("how", ["", "..", "through the album"])
def test_no_autostart_file_is_written_whatever_the_roots(home, album, journal, assert_unharmed, roots, how):
    names = {"HOME": str(home), "ALBUM": str(album), "PARENT": str(home.parent)}
    roots = [root.replace("HOME", names["HOME"]) if "/" in root else names.get(root, root) for root in roots]
    source = home / ".config/autostart/x.desktop"
    if how:
        source = f"{album}/../../.config/autostart/x.desktop"
    if how == "through the album":
        (album / "sub").symlink_to(home / ".config/autostart")
        source = album / "sub/x.desktop"
    assert_unharmed(journal((source, put(album, "x.desktop", ENTRY)), roots=roots))
    assert list((home / ".config/autostart").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *((name, None) for name in ("x.desktop", ".profile", ".hidden/a.jpg", "a.sh", "a.jpg.exe", "a", ".a.jpg")),
        *(("a.jpg", data) for data in (b"\x7fELF\x02\x01\x01", b"#!/bin/sh\nevil\n", b"MZ\x90", ENTRY, b"a text", b"")),
        *(("a.xmp", data) for data in (b"\x7fELF\x02\x01\x01", b"MZ\x90", b"\xef\xbb\xbf" + ENTRY)),
        ("a.MOV", b"\n #!/bin/sh\nevil\n"),
        ("a.jpg.json", b"#!/bin/sh\nevil\n"),
    ],
)
def test_only_pictures_and_companions_are_put_back_and_no_program(
    album, journal, assert_unharmed, name, data, photo_bytes
):
    target = put(album, name if data is not None else "a.jpg", photo_bytes(3) if data is None else data)
    assert "the journal is not of a run of yours" in assert_unharmed(journal((album / name, target)))
    assert not (album / name).exists()


def test_a_program_by_the_private_name_of_a_link_is_not_put_back(album, journal, assert_unharmed, photo_bytes):
    (album / ".a.jpg.diptych-link").write_bytes(b"#!/bin/sh\nevil\n")
    path = journal((album / "a.jpg", put(album, "a.jpg", photo_bytes(3))), act="hardlink")
    assert "it is no picture, and the journal is not of a run of yours" in assert_unharmed(path)


def test_the_pictures_and_companions_of_an_album_are_put_back_within_it(album, journal, photo_bytes, bytes_of):
    files = {"a.jpg": photo_bytes(3), "a.xmp": b"<x:xmpmeta/>", "sub/b.png": photo_bytes(4, (64, 64), "PNG")}
    path = journal(*((album / name, put(album, name, data)) for name, data in files.items()))
    assert undo_moves(read_journal(path)).done == 3
    assert {name: data for name, data in bytes_of(album).items() if TRASH not in name and name != "kept.jpg"} == files


@pytest.mark.parametrize("act", ["move", "delete", "hardlink"])
def test_a_file_of_the_user_is_neither_taken_into_the_album_nor_deleted(home, album, journal, assert_unharmed, act):
    own = home / "Pictures/own.jpg"
    for folders in ([home / "Pictures"], [album / TRASH], ["/"], [home], []):
        assert_unharmed(journal((album / "a.jpg", own), act=act, folders=list(map(str, folders))))
    (album / TRASH / "1" / "sub").symlink_to(home / "Pictures")
    assert_unharmed(journal((album / "a.jpg", album / TRASH / "1/sub/own.jpg"), act=act))
    assert own.exists()


def test_a_trash_of_the_user_is_not_emptied_by_the_journal_of_another_folder(home, album, journal, assert_unharmed):
    trash = put_aside(home / "Pictures")
    places = {"roots": [str(home / "Pictures")], "folders": [str(home / "Pictures" / TRASH)]}
    assert_unharmed(journal((home / "Pictures/a.jpg", trash / "a.jpg"), **places))


def test_no_empty_folder_of_the_user_is_removed(home, album, journal):
    (home / "empty/below").mkdir(parents=True)
    path = journal((album / "a.jpg", home / "empty/below/a.jpg"), folders=[str(home)])
    for act in (undo_moves, empty_trash):
        act(read_journal(path))
    assert (home / "empty/below").is_dir()


def test_a_journal_of_moves_puts_files_nowhere_that_the_user_has_not_named(home, album, journal, diptych, photo_bytes):
    (home / "Downloads/out").mkdir()
    target = home / "Downloads/out/a.jpg"
    target.write_bytes(photo_bytes(3))
    pictures = home / "Pictures"
    places = {"roots": [str(pictures)], "folders": [str(target.parent)], "act": "move"}
    path = journal((pictures / "a.jpg", target), at=target.with_name("diptych-journal-1.jsonl"), **places)
    refused = diptych("dedupe", "--undo", path)
    assert (refused.code, target.exists()) == (1, True)
    assert f"if that is right, name this folder too: diptych dedupe {pictures} --undo {path}" in refused.err
    other = diptych("dedupe", album, "--undo", path)
    assert (other.code, target.exists()) == (1, True)
    done = diptych("dedupe", pictures, "--undo", path)
    assert (done.code, done.out) == (0, "1 picture put back, 0 already in place\n")
    assert (pictures / "a.jpg").read_bytes() == photo_bytes(3)


def test_a_command_to_paste_runs_nothing_that_a_journal_says(home, album, journal):
    root = f"{home}/Pictures;touch pwned;true"
    path = journal((f"{root}/a.jpg", album / "kept.jpg"), roots=[root])
    with pytest.raises(DedupeError, match=f"name this folder too: diptych dedupe '{root}' --undo {path}$"):
        read_journal(path)


def test_a_keeper_is_read_only_in_a_folder_that_was_named(home, album, journal, monkeypatch):
    read_files = []
    monkeypatch.setattr("diptych.dedupe.actions.relocation.change_of", lambda path, id: read_files.append(path))
    places = {"roots": [str(home / "Pictures")], "act": "move", "marks": {"roots": [[1, 1, 1]]}}
    for keeper in (home / "Pictures/own.jpg", home / "Pictures/../Pictures/own.jpg"):
        path = journal((home / "Pictures/a.jpg", album / "kept.jpg"), **places, keeper=str(keeper))
        with pytest.raises(DedupeError):
            read_journal(path, [album])
        assert read_files == []
        read_journal(path, [home / "Pictures"])
        assert read_files.pop() == keeper


def test_nothing_is_deleted_for_a_keeper_in_a_folder_that_was_not_named(home, album, journal, diptych, photo_bytes):
    target = put(album, "a.jpg", photo_bytes(1))
    (album / "out").symlink_to(home / "Pictures")
    for keeper in (home / "Pictures/own.jpg", album / "out/own.jpg", album / "../../Pictures/own.jpg"):
        path = journal((album / "a.jpg", target), keeper=str(keeper), keeper_id=id_of(photo_bytes(1)))
        refused = diptych("dedupe", "--empty", path)
        assert (refused.code, f"{keeper}, lies elsewhere" in refused.out, target.exists()) == (1, True, True)
    assert diptych("dedupe", home / "Pictures", "--empty", path).code == 0


def test_naming_the_home_names_none_of_its_hidden_folders(home, album, journal, photo_bytes):
    target = put(album, "a.jpg", photo_bytes(3))
    for source in (home / ".config/a.jpg", home / ".a.jpg"):
        outcome = undo_moves(read_journal(journal((source, target), roots=[str(home)]), [home]))
        assert (outcome.done, "is hidden" in outcome.left[0]["reason"]) == (0, True)
    with pytest.raises(DedupeError, match="if that is right, name this folder too"):
        read_journal(journal((home / ".config/a.jpg", target), roots=[str(home / ".config")]), [home])
    assert undo_moves(
        read_journal(journal((home / ".config/a.jpg", target), roots=[str(home / ".config")]), [home / ".config"])
    ).done


def test_a_hidden_folder_that_was_searched_is_named(album, journal, diptych, photo_bytes):
    source = album / ".hidden/a.jpg"
    path = journal((source, put(album, "a.jpg", photo_bytes(3))))
    assert f"{source} is hidden, and the journal is not of a run of yours" in diptych("dedupe", "--undo", path).out
    source.parent.mkdir()
    assert diptych("dedupe", source.parent, "--undo", path).code == 0
    assert source.read_bytes() == photo_bytes(3)


def test_a_journal_that_claims_another_disk_or_another_place_is_bounded_all_the_same(
    home, album, journal, assert_unharmed
):
    target, status = put(album, "a.jpg", ENTRY), (home / "Pictures").stat()
    mark = [status.st_ino, os.statvfs(home).f_fsid, status.st_dev]
    claims = {"marks": {"folder": mark, "roots": [mark]}, "mounted": [str(home / "Pictures")]}
    for at in (home / "Pictures" / TRASH / "1/journal.jsonl", Path("/journal.jsonl"), album / "journal.jsonl"):
        places = {"roots": [str(home / "Pictures")], "folders": [str(home / "Pictures" / TRASH)]}
        path = journal((home / "Pictures/a.jpg", target), **claims, **places)
        lines = path.read_text().splitlines()
        path.write_text("\n".join([json.dumps(json.loads(lines[0]) | {"at": str(at)}), *lines[1:]]) + "\n")
        assert_unharmed(path)


def test_names_that_are_not_utf_8_are_bounded_too_and_a_nul_is_refused(home, album, journal, assert_unharmed):
    target = put(album, "\udcff.jpg", ENTRY)
    assert_unharmed(journal((home / "Pictures/\udcff.jpg", target)))
    assert_unharmed(journal((album / "\udcff.jpg", target)))
    assert "has a NUL" in assert_unharmed(journal((f"{album}/a\0b.jpg", target)))


def test_a_journal_of_more_files_than_any_run_moves_is_not_read_to_its_end(album, journal, monkeypatch):
    monkeypatch.setattr("diptych.dedupe.actions.undo_log._MOST_FILES", 3)
    path = journal(*[(album / f"{number}.jpg", album / TRASH / f"1/{number}.jpg") for number in range(5)])
    with pytest.raises(DedupeError, match=r"it has more than .* bytes or 3 files"):
        read_journal(path)
    many = {"roots": [str(album)] * 51}
    with pytest.raises(DedupeError, match="it names more than 50 folders"):
        read_journal(journal(**many))


# The user's own journals.


def test_a_journal_of_this_user_is_known_by_its_seal_and_not_after_it_was_edited(tmp_path, data_home):
    journal = put_aside(tmp_path / "photos") / "journal.jsonl"
    assert not read_journal(journal).foreign
    key = data_home / "diptych-journals.key"
    assert (key.stat().st_mode & 0o777, key.stat().st_size) == (0o600, 32)
    lines = journal.read_text().splitlines(keepends=True)
    other = put_aside(tmp_path / "others") / "journal.jsonl"
    for changed in (
        [lines[0], lines[1].replace("a.jpg", "b.jpg")],
        [lines[0].replace("photos", "other"), lines[1]],
        [lines[0], other.read_text().splitlines()[1]],
        [*lines, lines[1].replace('"seal"', '"seals"')],
    ):
        journal.write_text("".join(changed))
        try:
            assert read_journal(journal).foreign
        except DedupeError:
            continue
    journal.write_text("".join(lines))
    key.unlink()
    assert read_journal(journal).foreign


def test_without_a_place_for_the_key_files_are_moved_and_their_folder_is_named_to_undo_it(tmp_path, monkeypatch):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "a file"))
    journal = put_aside(tmp_path / "photos") / "journal.jsonl"
    assert read_journal(journal).foreign
    alone = shutil.move(journal, tmp_path / "journal.jsonl")
    with pytest.raises(DedupeError, match=f"name this folder too: diptych dedupe {tmp_path}/photos --undo"):
        read_journal(Path(alone))
    assert read_journal(Path(alone), [tmp_path / "photos"]).unknown == {}


def test_of_the_users_own_journal_only_what_is_from_a_named_folder_is_put_back(tmp_path):
    journal = put_aside(tmp_path / "photos") / "journal.jsonl"
    with pytest.raises(DedupeError, match=f"{tmp_path}/photos, where it is from, was not named; name it too"):
        read_journal(journal, [tmp_path / "other"])
    assert undo_moves(read_journal(journal, [tmp_path])).done == 1
