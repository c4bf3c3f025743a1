"""The facts by which keepers are chosen, read from the files of a collection's pictures."""

import io
import os

import pytest
from PIL import Image

from diptych import Collection
from diptych.dedupe import find
from diptych.dedupe.find import of_record, with_file_facts
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
        os.utime(tmp_path / name, (2.5e11, 2.5e11) if name == "plain.png" else (1e9, 1e9))
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        collection.add([tmp_path / name for name in files])
        (kept,) = collection.add(photo_bytes(4), keep_originals=True)
        (tmp_path / "gone.jpg").unlink()
        yield collection, files, kept.id


def test_what_the_files_say_is_read_once_and_what_is_gone_stays_as_it_is(stored, monkeypatch):
    collection, files, kept = stored
    pictures, ticks = [of_record(record) for record in collection.list(10)], []
    every = {one.id for one in pictures}
    with PairCache(None, "rev") as pair_cache:
        found = with_file_facts(collection, pictures, every, pair_cache, ticks.append)
        by_name = {one.path.rsplit("/", 1)[-1]: one for one in found}
        camera, plain = by_name["camera.jpg"], by_name["plain.png"]
        assert (camera.bytes, camera.exif >= 1, camera.time) == (len(files["camera.jpg"]), True, 1e9)
        assert (plain.exif, plain.format, plain.time) == (0, "PNG", None), "a date that cannot be is none"
        assert by_name["gone.jpg"] in pictures
        assert by_name[kept].bytes > 0
        assert by_name[kept].modified == next(one.modified for one in pictures if one.id == kept)
        assert preference_order([plain, camera], ["oldest"]) == preference_order([plain, camera], ["newest"]) == [1, 0]
        monkeypatch.setattr(find, "read_facts", lambda *_: pytest.fail("it was read again"))
        assert with_file_facts(collection, pictures, every, pair_cache) == found
        assert with_file_facts(collection, pictures, set(), pair_cache) == pictures
    assert ticks == [0]
