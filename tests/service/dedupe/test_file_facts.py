"""The facts by which keepers are chosen, read from the files of a collection's pictures."""

import io
import os

import pytest
from PIL import Image

from diptych import Collection
from diptych.dedupe import file_facts
from diptych.dedupe.file_facts import with_file_facts
from diptych.dedupe.find import of_record
from diptych.dedupe.keeper import preference_order
from diptych.dedupe.pair_cache import PairCache


@pytest.fixture
def stored(tmp_path, scorer, photo_bytes):
    """A collection of files with and without EXIF entries, of one that is gone, and of one whose bytes it keeps."""
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    camera = io.BytesIO()
    Image.open(io.BytesIO(photo_bytes(1))).save(camera, "JPEG", exif=exif, quality=95)
    files = {"camera.jpg": camera.getvalue(), "plain.png": photo_bytes(2, format="PNG"), "gone.jpg": photo_bytes(3)}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        os.utime(tmp_path / name, (1e9, 1e9))
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        collection.add([tmp_path / name for name in files])
        (kept,) = collection.add(photo_bytes(4), keep_originals=True)
        (tmp_path / "gone.jpg").unlink()
        yield collection, files, kept.id


def test_what_the_files_say_is_read_once_and_what_is_gone_stays_as_it_is(stored, monkeypatch):
    collection, files, kept = stored
    pictures = [of_record(record) for record in collection.list(10)]
    assert {one.bytes for one in pictures} == {0}
    ticks = []
    with PairCache(None, None) as pair_cache:
        found = with_file_facts(collection, pictures, {one.id for one in pictures}, pair_cache, ticks.append)
        assert ticks == [0]
        by_name = {one.path.rsplit("/", 1)[-1]: one for one in found}
        assert by_name["camera.jpg"].bytes == len(files["camera.jpg"])
        assert by_name["camera.jpg"].exif >= 1
        assert by_name["camera.jpg"].time == 1e9
        assert (by_name["plain.png"].exif, by_name["plain.png"].format) == (0, "PNG")
        assert by_name["gone.jpg"] in pictures
        assert by_name[kept].bytes > 0
        assert (by_name[kept].path, by_name[kept].modified) == (
            kept,
            next(p for p in pictures if p.id == kept).modified,
        )
        camera, plain = by_name["camera.jpg"], by_name["plain.png"]
        assert preference_order([plain, camera], ["with-exif"]) == [1, 0]
        monkeypatch.setattr(file_facts, "read_facts", lambda *_: pytest.fail("it was read again"))
        assert with_file_facts(collection, pictures, {one.id for one in pictures}, pair_cache) == found
        assert with_file_facts(collection, pictures, set(), pair_cache) == pictures


def test_files_of_impossible_times_are_grouped_and_told_without_a_date(tmp_path, scorer, dedupe, photo_bytes):
    folder = tmp_path / "odd"
    folder.mkdir()
    times = {"before.jpg": -6.2e10, "zero.jpg": 0, "soon.jpg": 4e9, "far.jpg": 2.5e11, "known.jpg": 1e9}
    for name, seconds in times.items():
        (folder / name).write_bytes(photo_bytes(1))
        os.utime(folder / name, (seconds, seconds))
    for rule in ("oldest", "newest"):
        written = ("-o", tmp_path / "groups.csv", "--report", tmp_path / "report.html")
        rows = dedupe(folder, "--keep", rule, "--json", *written).json["rows"]
        assert (rows[0]["path"], rows[0]["time"]) == (str(folder / "known.jpg"), "2001-09-09T01:46:40+00:00")
        assert [row["time"] for row in rows[1:]] == [""] * 4
    with (
        Collection.open(tmp_path / "collection", scorer, create=True) as collection,
        PairCache(None, None) as pair_cache,
    ):
        collection.add(folder / "far.jpg")
        (picture,) = map(of_record, collection.list(10))
        (found,) = with_file_facts(collection, [picture], {picture.id}, pair_cache)
    assert (found.time, found.bytes) == (None, len(photo_bytes(1)))
