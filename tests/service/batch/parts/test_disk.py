import errno
import shutil

import pytest

from diptych.batch.parts.disk import check_room, explained
from diptych.errors import BatchError


def test_a_disk_with_room_is_passed_and_one_without_says_how_much_is_missing(tmp_path):
    check_room(tmp_path, 1, "a byte", "make room")
    needed = 2 * shutil.disk_usage(tmp_path).total
    with pytest.raises(BatchError, match=r"needs about [\d,.]+ [GT]B of disk for all of it, and .* free; make room"):
        check_room(tmp_path, needed, "all of it", "make room")


@pytest.mark.parametrize(("file", "named"), [("a.part", "a.part"), (None, "folder")])
def test_what_the_system_refuses_is_said_with_the_file_or_the_folder(tmp_path, file, named):
    with (
        pytest.raises(BatchError, match=f"{named}: No space left on device; what is done is kept, so mend that and go"),
        explained(tmp_path / "folder", "go on"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", file)
