import sys
import tempfile
from functools import partial
from multiprocessing import process, util
from pathlib import Path

import pytest
from looking import threads_after_a_look
from waiting import answer

from diptych.scoring.decode_pool import DecodePool
from diptych.scoring.fork_server import start_process

BYTES = (107 if sys.platform == "linux" else 103) - len("/pymp-12345678/listener-12345678")


@pytest.fixture
def placed(tmp_path, monkeypatch):
    """`placed(folder)` lets processes be started in a folder for temporary files, as at the start of the program."""

    settings = vars(process.current_process())["_config"]

    def place(folder):
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        monkeypatch.delitem(settings, "tempdir", raising=False)

    monkeypatch.setitem(settings, "tempdir", None)
    return place


def test_a_folder_for_temporary_files_that_is_missing_or_has_too_long_a_name_for_a_socket_is_said(placed, tmp_path):
    short = next(folder for folder in (tmp_path, *tmp_path.parents) if len(str(folder)) < BYTES - 9)
    longest = short / ("x" * (BYTES - len(str(short)) - 1))
    longest.mkdir()
    placed(longest)
    start_process(answer, (), name="test")[0].join(10)
    longer = longest.with_name(longest.name + "x")
    longer.mkdir()
    placed(longer)
    with pytest.raises(OSError, match=rf"whose name has at most 89 bytes, got {longer}/pymp-\w+; name one in TMPDIR"):
        start_process(answer, (), name="test")
    placed(tmp_path / "none")
    with pytest.raises(OSError, match=rf"a folder for temporary files that is there .* got {tmp_path}/none"):
        start_process(answer, (), name="test")
    placed(tmp_path)
    folder = Path(util.get_temp_dir())
    folder.rmdir()
    with pytest.raises(OSError, match=rf"that is there .* got {folder}; name one in TMPDIR and start again"):
        start_process(answer, (), name="test")
    folder.mkdir()  # which `multiprocessing` removes at the end


def test_a_process_that_looks_closer_begins_no_thread_of_which_each_would_take_of_its_memory(photo_bytes):
    with DecodePool(1) as workers:
        assert workers.run(partial(threads_after_a_look, photo_bytes(1, (640, 480)))) == "1"
