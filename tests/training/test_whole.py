import contextlib
from pathlib import Path

import pytest

from diptych_training.errors import DataError
from diptych_training.whole import whole_file, whole_folder


def test_a_file_takes_its_place_in_the_end_and_keeps_the_old_one_if_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with whole_file(path) as unfinished:
        unfinished.write_text("old")
        assert (unfinished.suffix, path.exists()) == (".json", False)
    with contextlib.suppress(KeyboardInterrupt), whole_file(path) as unfinished:
        unfinished.write_text("half")
        raise KeyboardInterrupt
    assert [(one, one.read_text()) for one in tmp_path.iterdir()] == [(path, "old")]


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_takes_its_place_in_the_end_and_nothing_is_left_of_it_if_it_fails(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "deep" / "folder"
    if there:
        path.mkdir(parents=True)
    with contextlib.suppress(OSError), whole_folder(path) as fresh:
        (fresh / "a").write_text("a")
        raise OSError(28, "full")
    assert list((tmp_path / "deep").iterdir()) == ([path] if there else [])
    with whole_folder(path) as fresh:
        (fresh / "a").write_text("a")
    assert (path / "a").read_text() == "a"
    assert list((tmp_path / "deep").iterdir()) == [path]


def test_a_folder_whose_place_cannot_be_taken_is_refused_before_the_work() -> None:
    mounted = Path("/proc")
    with (
        pytest.raises(DataError, match=r"/proc is where a disk is mounted, .*; name a folder in it"),
        whole_folder(mounted),
    ):
        pytest.fail("it began")
