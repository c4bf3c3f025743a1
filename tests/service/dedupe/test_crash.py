"""kill -9 in the middle of moving: every file is somewhere, whole, and the journal puts all of them back."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from diptych.dedupe.actions import undo_log

FILES = 300


@pytest.fixture
def many(tmp_path, photo_bytes) -> Path:
    """Files in pairs with the same bytes, so that half of them go."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:03d}.png").write_bytes(photo_bytes(number // 2, (16, 16), "PNG"))
    return folder


@pytest.mark.parametrize("moved", [40, *(pytest.param(moved, marks=pytest.mark.slow) for moved in (1, 110))])
def test_kill_9_while_moving_loses_nothing_and_undo_restores_everything(
    many, tmp_path, artifact, diptych, spawn, bytes_of, moved
):
    before, out, named = bytes_of(many), tmp_path / "out", re.compile(r"\.(.+)\.[0-9a-f]{32}\.diptych-moving")
    words = ("dedupe", many, "--store", tmp_path / "store", "--model", artifact, "--threads", 1, "--threshold", 1)
    assert diptych(*words, "--quiet").code == 0
    process = spawn(*words, "--move-to", out, "--quiet")
    limit = time.monotonic() + 120
    while len(list(out.glob("*.png"))) < moved and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.0005)
    process.kill()
    process.wait()
    gone = {name: data for name, data in bytes_of(out).items() if name.endswith(".png")}
    assert len(gone) >= moved
    left = {(named.match(name) or [name, name])[1]: data for name, data in bytes_of(many).items()}
    assert left | gone == before, "each is somewhere, one perhaps under the name by which it is held"
    (path,) = out.glob("diptych-journal-*.jsonl")
    assert {Path(entry.target).name for entry in undo_log.read_journal(path).entries} >= gone.keys()
    result = diptych("dedupe", "--undo", path, "--json")
    assert (result.code, result.json["left"]) == (0, [])
    assert bytes_of(many) == before
    assert list(bytes_of(out)) == [path.name]
    again = diptych(*words, "--move-to", out, "--json")
    assert (again.json["done"], again.json["left"]) == (FILES // 2, []), "and then the whole of it goes"
