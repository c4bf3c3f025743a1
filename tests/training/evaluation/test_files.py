"""Folders, archives, and what is missing from them."""

import zipfile
from pathlib import Path

import pytest

from diptych_training.errors import DataError
from diptych_training.evaluation.files import as_folder, captions, require


def test_an_archive_is_a_folder_of_what_is_wanted_while_the_block_lasts(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("top/a.png", "top/b.txt", "__MACOSX/top/._a.png", "../outside.png"):
            archive.writestr(name, name)
    with as_folder(tmp_path / "a.zip", lambda name: name.suffix == ".png") as folder:
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert found == {"top/a.png", "outside.png"}
    assert not folder.exists()
    assert not (tmp_path.parent / "outside.png").exists()


def test_a_folder_is_itself_and_stays(tmp_path: Path) -> None:
    with as_folder(tmp_path) as folder:
        assert folder == tmp_path
    assert tmp_path.is_dir()


@pytest.mark.parametrize(("written", "message"), [(True, "is no zip archive"), (False, "does not exist")])
def test_what_is_neither_is_refused(written: bool, message: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    if written:
        path.write_text("no archive")
    with (
        pytest.raises(DataError, match=f"a folder or a zip archive, and .*runs.zip {message}"),
        as_folder(path),
    ):
        pass


def test_missing_pictures_are_counted_and_the_first_named(tmp_path: Path) -> None:
    (tmp_path / "here.png").touch()
    files = [tmp_path / name for name in ("here.png", "a.png", "b.png", "a.png", "c.png", "d.png")]
    with pytest.raises(DataError, match=r"4 of 5 queries are not there: \S*a.png, \S*b.png, \S*c.png, ...; look in x"):
        require(files, "queries", "look in x")
    require(files[:1], "queries", "look in x")


def test_captions_start_below_the_root_where_the_file_is_there() -> None:
    assert captions([Path("/r/a/b.png"), Path("/s/c.png")], Path("/r")) == ["a/b.png", "/s/c.png"]
