import os

import pytest

from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import MANIFEST, Manifest
from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration
from diptych_runtime.own_files import open_own, open_regular


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_APPEND])
def test_a_link_or_a_pipe_is_refused_before_anything_is_written(tmp_path, flags):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("link", "is a link"), ("dangling", "is a link"), ("pipe", "pipe is no file")):
        with pytest.raises(OSError, match=reason):
            open_regular(tmp_path / name, flags)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "none").exists()


def test_a_hard_link_is_read_and_never_written(tmp_path):
    (tmp_path / "victim").write_text("precious")
    os.link(tmp_path / "victim", tmp_path / "lock")
    with pytest.raises(OSError, match="lock is another file too"):
        open_regular(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    with open_own(tmp_path / "lock") as file:
        assert file.read() == b"precious"


def test_a_link_is_followed_where_it_may_be_one(tmp_path):
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with open_own(tmp_path / "link", may_link=True) as file:
        assert file.read() == b"content"


def test_a_pipe_in_the_place_of_a_manifest_or_a_calibration_is_an_error_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / MANIFEST)
    os.mkfifo(tmp_path / CALIBRATION)
    with pytest.raises(ArtifactError, match="is no file"):
        Manifest.load(tmp_path)
    with pytest.raises(ArtifactError, match="is no file"):
        OwnCalibration.load(tmp_path / CALIBRATION)
