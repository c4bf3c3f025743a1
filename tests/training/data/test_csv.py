from pathlib import Path

import pytest

from diptych_training.data.csv import read_column, read_table
from diptych_training.errors import DataError


def test_further_columns_are_kept_and_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\ufeffpath,note\na.jpg,x\n", encoding="utf-8")
    assert read_table(path, ["path"]) == [{"path": "a.jpg", "note": "x"}]
    assert read_column(path, "note") == ["x"]


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the columns path, class at .*, which is no file"):
        read_table(tmp_path / "no.csv", ["path", "class"])
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(DataError, match=r"needs the columns path; it has a, b"):
        read_column(tmp_path / "t.csv", "path")
