import csv
import json
from dataclasses import replace

import pytest

from diptych.dedupe.duplicates import Duplicates, Group, Member
from diptych.dedupe.report.table import COLUMNS, list_rows, summarize_groups, write_table


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
        Member(replace(left, path="/p/f.jpg"), 0.99, False, "likely", "taken", "sharper", left),
    )
    groups = [Group(keeper, others)]
    return Duplicates(groups, [keeper, exact, near, left, alone], [0, 1, 2, 3, 4], [], 0.99, 0.94, 11, 4, {}, "copy")


def test_the_summary_counts_what_could_go(found):
    data = summarize_groups(found, [{"path": "x", "reason": "y"}])
    assert (data["pictures"], data["groups"], data["could_go"], data["exact"], data["bytes"]) == (5, 1, 3, 2, 21)
    assert data["to_look_at"] == 1
    assert (data["pairs"], data["pairs_scored"], data["refused"]) == (11, 4, [{"path": "x", "reason": "y"}])
    found.pictures.append(replace(found.pictures[0], reference=True))
    assert summarize_groups(found, [])["references"] == 1


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
        ("1", "/p/d.jpg", "1", "0", "0.999", "likely", "network", "taken", "0", "0", "their tones differ", "mirrored"),
        ("1", "/p/f.jpg", "0", "1", "0.99", "likely", "network", "taken", "0", "0", "sharper", ""),
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


def test_cells_that_a_spreadsheet_would_compute_begin_with_an_apostrophe_on_request(found, tmp_path, picture):
    found.groups.append(Group(picture(path="=1+1"), ()))
    for spreadsheet, path in ((False, "=1+1"), (True, "'=1+1")):
        write_table(tmp_path / "g.csv", found, [], spreadsheet=spreadsheet)
        assert (tmp_path / "g.csv").read_text().splitlines()[-1].startswith(f"2,{path},1,0,1.0,")
