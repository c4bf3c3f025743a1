import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from exported import drawn_collection
from waiting import until

from diptych.bench.demo import collection
from diptych.bench.demo.collection import draw_collection
from diptych.cli.main import main

COUNT = 24


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("whole") / "collection"
    drawn_collection(folder, COUNT)
    return digests(folder)


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def interrupt(folder: Path, after: int, count: int, seed: int = 0, program: bytes = b"") -> None:
    """Ctrl-C when a drawing, perhaps by another program, has so many pictures more."""
    draw, left = collection._draw, [after]

    def drawn(*args):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return draw(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "_draw", drawn)
        if program:
            patch.setattr(collection, "_settings", lambda *_: program)
        with pytest.raises(KeyboardInterrupt):
            draw_collection(folder, count=count, seed=seed)


@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, *(pytest.param(sent, marks=pytest.mark.slow) for sent in (signal.SIGINT, signal.SIGTERM))]
)
def test_a_drawing_that_was_ended_goes_on_to_the_same_bytes_and_keeps_what_is_whole(whole, environment, tmp_path, sent):
    line = [sys.executable, "-m", "diptych", "demo", str(tmp_path), "--count", str(COUNT)]
    with subprocess.Popen(line, env=environment, stderr=subprocess.DEVNULL) as process:
        until(lambda: len(list(tmp_path.glob("photos/*.jpg"))) > 3, 30)
        process.send_signal(sent)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("photos/*.jpg")}
    assert 3 < len(kept) < COUNT
    assert not (tmp_path / "truth.csv").exists()
    draw_collection(tmp_path, count=COUNT)
    assert digests(tmp_path) == whole
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())


@pytest.mark.slow
def test_several_processes_go_on_too(whole, tmp_path):
    interrupt(tmp_path, 9, COUNT)
    draw_collection(tmp_path, count=COUNT, processes=2)
    assert digests(tmp_path) == whole


@pytest.mark.parametrize(("seed", "program"), [(2, b""), (1, b"another")])
def test_what_other_settings_or_another_program_have_drawn_is_drawn_anew(tmp_path, seed, program):
    draw_collection(tmp_path / "whole", count=4, seed=1)
    interrupt(tmp_path / "again", 2, 4, seed, program)
    interrupt(tmp_path / "again", 1, 4, 1)
    assert len(list((tmp_path / "again/photos").iterdir())) == 1, "pictures of two drawings lie side by side"
    draw_collection(tmp_path / "again", count=4, seed=1)
    assert digests(tmp_path / "again") == digests(tmp_path / "whole")


def test_the_command_that_is_interrupted_says_that_it_goes_on(tmp_path, monkeypatch, capsys):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(collection, "_draw", stop)
    assert main(["demo", str(tmp_path), "--count", "2"]) == 130
    assert capsys.readouterr() == ("", "interrupted; the same command goes on from here\n")
