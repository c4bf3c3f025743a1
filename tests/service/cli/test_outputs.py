import json
import os

import pytest

from diptych.cli.options import check_output
from diptych.errors import OutputError
from diptych.pictures.walk import TRASH
from diptych.store.sqlite.schema import DATABASE


def test_an_output_is_never_an_input_under_any_name(tmp_path):
    photo, link, hard = tmp_path / "a.jpg", tmp_path / "link.jpg", tmp_path / "hard.jpg"
    photo.write_bytes(b"mine")
    link.symlink_to(photo)
    os.link(photo, hard)
    for output in (photo, link, hard, tmp_path / "." / ".." / tmp_path.name / "a.jpg"):
        with pytest.raises(OutputError, match="which is read here; name another file"):
            check_output(output, ["-", "https://example.org/a.jpg", tmp_path / "gone.jpg", photo])


def test_an_output_is_never_a_folder_a_picture_part_of_a_collection_or_among_what_dedupe_put_aside(tmp_path):
    check_output(tmp_path / DATABASE)
    for name in (DATABASE, "a.JPG", "out.png", "out.csv"):
        (tmp_path / name).write_bytes(b"the last one")
    (tmp_path / TRASH / "1").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / TRASH)
    (tmp_path / "labels.csv").symlink_to(tmp_path / "a.JPG")
    for names, said in (
        (("",), "is a folder; name a file in it"),
        ((DATABASE, f"{DATABASE}-wal", "candidates.json", "dedupe.sqlite"), "belongs to the collection"),
        ((f"{TRASH}/1/a.html", "link/1/a.html"), "is among what dedupe put aside"),
        (("a.JPG", "labels.csv"), "is a picture; name another file"),
    ):
        for name in names:
            with pytest.raises(OutputError, match=said):
                check_output(tmp_path / name)
    for name in ("export.jsonl", "new.jpg", "out.csv"):
        check_output(tmp_path / name, [tmp_path / "a.JPG"])
    check_output(tmp_path / "out.png", [tmp_path / "a.JPG"], picture=True)


def test_every_command_that_writes_a_file_refuses_to_write_over_what_it_reads(diptych, gallery, model, store):
    first, second = gallery / "01.jpg", gallery / "02.jpg"
    table = gallery / "pairs.csv"
    table.write_text("image_a,image_b\n01.jpg,02.jpg\n")
    before = {path: path.read_bytes() for path in (first, second, table, store / DATABASE)}
    for other in ("report.html", "why.png"):
        os.link(first, gallery / other)
    for command in (
        ("explain", first, second, "-o", gallery / "why.png", *model),
        ("dedupe", gallery, "--store", store, "--report", gallery / "report.html", *model),
        ("index", "export", "--store", store, "-o", store / DATABASE),
        ("index", "export", "--store", store, "-o", second),
        ("label", "--store", store, "--export", first),
        ("score", table, "-o", table, "--force", *model),
        ("dedupe", gallery, "--selection", table, "--delete", "-o", table, "--store", store, *model),
    ):
        refused = diptych(*command, "--json")
        assert refused.code == 1, command
        assert json.loads(refused.out)["error"]["code"] == "output", command
    assert {path: path.read_bytes() for path in before} == before
