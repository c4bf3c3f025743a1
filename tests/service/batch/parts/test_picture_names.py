from contextlib import closing

import pytest

from diptych.batch.parts.manifest import Step
from diptych.batch.parts.picture_names import PictureNames, describe, names_between
from diptych.errors import BatchError


def test_names_have_places_in_the_order_in_which_they_came_and_each_only_one(tmp_path):
    path = tmp_path / "a name?.sqlite"
    given = ["b", "a", "", "b", "ä\n", "\ud800", "a", "x" * 5000]
    with closing(PictureNames(path)) as names:
        places = [names.place(name) for name in given]
        names.finish()
        assert len(names) == 6
    assert places == [0, 1, 2, 0, 3, 4, 1, 5]
    assert names_between(path, 0, 6) == list(dict.fromkeys(given))
    assert names_between(path, 2, 4) == ["", "ä\n"]


def test_more_names_than_are_remembered_keep_their_places(tmp_path, monkeypatch):
    monkeypatch.setattr("diptych.batch.parts.picture_names._REMEMBERED", 3)
    with closing(PictureNames(tmp_path / "names")) as names:
        first = [names.place(str(number)) for number in range(100)]
        assert [names.place(str(number)) for number in range(100)] == first == list(range(100))


def test_a_part_is_told_by_its_items_and_by_their_names_where_they_have_some(tmp_path):
    with closing(PictureNames(tmp_path / "names")) as names:
        for name in "abcde":
            names.place(name)
        names.finish()
    step = Step("pictures", 5, 2)
    assert describe(step, 1, None) == "the pictures 3 to 4"
    assert describe(step, 1, tmp_path / "names") == "the pictures 3 to 4 (c to d)"
    assert describe(step, 2, tmp_path / "names") == "the pictures 5 to 5 (e to e)"


def test_a_file_that_cannot_be_written_is_told_and_let_go(tmp_path):
    (tmp_path / "names").mkdir()
    with pytest.raises(BatchError, match="names cannot be written: unable to open"):
        PictureNames(tmp_path / "names")
    (tmp_path / "other").write_bytes(b"no database " * 100)
    with pytest.raises(BatchError, match="other cannot be written: file is not a database; make room"):
        PictureNames(tmp_path / "other")
