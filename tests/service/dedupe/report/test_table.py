import csv
import json
from dataclasses import replace

import pytest

from diptych.dedupe.duplicates import Duplicates, Group, Member
from diptych.dedupe.report.table import COLUMNS, list_rows, summarize_groups, write_table
from diptych.errors import DedupeError


@pytest.fixture
def found(picture):
    keeper, near, left, alone = (
        picture(path=f"/p/{name}.jpg", bytes=size) for name, size in zip("acde", (7, 5, 9, 3), strict=True)
    )
    exact = replace(keeper, path="/p/b.jpg")
    others = (
        Member(exact, 1.0, True, kept_because="more bytes", replaced_by=keeper),
        Member(near, 0.9991, False, "likely", "taken", "more pixels", keeper, "smaller"),
        Member(left, 0.999, False, "likely", "taken", "their tones differ", None, "mirrored"),
    )
    groups = [Group(keeper, others)]
    return Duplicates(groups, [keeper, exact, near, left, alone], [0, 1, 2, 3, 4], [], 0.99, 0.94, 11, 4, {}, "copy")


def test_the_summary_counts_what_could_go(found):
    data = summarize_groups(found, [{"path": "x", "reason": "y"}])
    assert (data["pictures"], data["groups"], data["could_go"], data["exact"], data["bytes"]) == (5, 1, 2, 1, 12)
    assert data["to_look_at"] == 1
    assert (data["pairs"], data["pairs_scored"], data["refused"]) == (11, 4, [{"path": "x", "reason": "y"}])


def test_those_to_keep_are_the_first_of_a_group_and_those_for_which_another_goes(found):
    keeper, exact, _, left = (found.groups[0].keeper, *(one.picture for one in found.groups[0].others))
    others = (Member(left, 0.99, False), Member(exact, 1.0, True, replaced_by=left))
    told = [
        (row["path"], row["keeper"], row["goes"]) for row in list_rows(replace(found, groups=[Group(keeper, others)]))
    ]
    assert told == [("/p/a.jpg", True, False), ("/p/d.jpg", True, False), ("/p/b.jpg", False, True)]


def test_a_table_has_a_line_a_picture_the_keeper_first(found, tmp_path):
    write_table(tmp_path / "g.csv", found, [])
    with (tmp_path / "g.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == COLUMNS
    told = [tuple(line[name] for name in COLUMNS[:12]) for line in lines]
    assert told == [
        ("1", "/p/a.jpg", "1", "0", "1.0", "same", "", "", "1", "0", "more bytes, more pixels", ""),
        ("1", "/p/b.jpg", "0", "1", "1.0", "same", "digest", "", "1", "0", "more bytes", ""),
        ("1", "/p/c.jpg", "0", "1", "0.9991", "likely", "network", "taken", "0", "0", "more pixels", "smaller"),
        ("1", "/p/d.jpg", "0", "0", "0.999", "likely", "network", "taken", "0", "0", "their tones differ", "mirrored"),
    ]


def test_json_has_the_same_lines_and_what_was_refused(found, tmp_path):
    write_table(tmp_path / "g.json", found, [{"path": "x", "reason": "y"}])
    document = json.loads((tmp_path / "g.json").read_text())
    assert document["rows"] == list(list_rows(found))
    assert document["refused"] == [{"path": "x", "reason": "y"}]
    assert document["rows"][0]["time"] == "2001-09-09T01:46:40+00:00"


def test_a_name_with_commas_quotes_and_lines_comes_back_as_it_was(found, tmp_path, picture):
    name = '/p/"a", b\nc\u2028<d>.jpg'
    found.groups.append(Group(picture(path=name), ()))
    for ending in ("csv", "json"):
        write_table(tmp_path / f"g.{ending}", found, [])
    with (tmp_path / "g.csv").open(newline="") as file:
        assert list(csv.DictReader(file))[-1]["path"] == name
    assert json.loads((tmp_path / "g.json").read_text())["rows"][-1]["path"] == name


def test_a_disk_that_is_full_leaves_the_old_file_and_says_so(found, tmp_path, monkeypatch):
    path = tmp_path / "g.csv"
    path.write_text("old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DedupeError, match=r"g\.csv cannot be written: No space left on device; nothing is left of it"):
        write_table(path, found, [])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("g.csv", "old")]


def test_what_lies_in_a_reference_folder_is_marked_and_counted(found, picture):
    kept = Group(picture(path="/r/a.jpg", reference=True), (Member(picture(path="/p/x.jpg"), 1.0, True),))
    assert [row["reference"] for row in list_rows(replace(found, groups=[kept]))] == [True, False]
    found.pictures.append(kept.keeper)
    assert (summarize_groups(found, [])["references"], summarize_groups(found, [])["pictures"]) == (1, 6)
