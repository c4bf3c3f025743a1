import pytest

from diptych_runtime.decoder import SUFFIXES, check_file, open_picture
from diptych_runtime.errors import PictureError
from diptych_runtime.unread_formats import OTHER_FORMATS


def test_no_format_that_is_read_is_among_them():
    assert not SUFFIXES & OTHER_FORMATS.keys()


def test_a_file_of_another_format_is_called_by_it_with_the_way_out(tmp_path):
    (tmp_path / "a.CR3").write_bytes(bytes(100))
    for read in (check_file, open_picture):
        with pytest.raises(PictureError, match=r"a\.CR3 is camera RAW, which is not read: export JPEG or TIFF"):
            read(tmp_path / "a.CR3")


def test_a_picture_under_the_name_of_another_format_is_read(tmp_path, photo_bytes):
    (tmp_path / "a.hif").write_bytes(photo_bytes())
    assert open_picture(tmp_path / "a.hif").size == (96, 64)
