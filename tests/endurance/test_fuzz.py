import http.client
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import fuzz
import pytest

DEPENDS_ON = ("service/diptych/http", "service/diptych/scoring", "export/diptych_runtime/decoder.py")

PROGRAM = Path(__file__).with_name("fuzz.py")


def run(artifact, environment, keep, *arguments):
    command = [sys.executable, "-W", "error", PROGRAM, "--model", artifact, "--keep", keep, *arguments]
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=600)


def test_thousands_of_broken_pictures_crash_nothing(artifact, environment, tmp_path):
    done = run(artifact, environment, tmp_path / "kept", "--minutes", 0.5, "--seed", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {line.rsplit(maxsplit=1)[0].strip(): line.rsplit(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert int(counts["200"].replace(",", "")) > 8
    assert int(counts["422 invalid_picture"].replace(",", "")) > 8
    assert not (tmp_path / "kept").exists()


def test_every_kind_of_picture_is_read_before_it_is_broken(scorer):
    pictures = fuzz.whole()
    assert len(pictures) > 25
    assert {scorer.pixels(data).shape for data in pictures} == {(*scorer.pixels(pictures[0]).shape,)}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"error": {"code": "internal"}}'),
        (422, b'{"error": {"code": "decoder_ended"}}'),
        (200, b'{"data": [{"embedding": [NaN, 1.0]}]}'),
        (200, b'{"data": [{"embedding": [3.0, 4.0]}]}'),
    ],
)
def test_a_fault_of_the_service_is_seen_as_one(status, body):
    connection = Mock(spec=http.client.HTTPConnection)
    connection.getresponse.return_value = Mock(status=status, read=lambda: body)
    assert fuzz.judged(connection, b"x")[1] is False
