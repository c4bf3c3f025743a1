"""What the tests rest on: artifacts that are exported once, and a limit to what one test may take."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import exported
import pytest

SAMPLE = """
import time
import pytest

@pytest.fixture(scope="session")
def of_the_run():
    time.sleep(0.7)

@pytest.fixture(scope="module")
def of_the_file():
    time.sleep(0.7)

def test_quick(of_the_run):
    pass

def test_long():
    time.sleep(0.7)

def test_of_something_long(of_the_file):
    pass
"""


def test_a_test_that_takes_too_long_fails_and_so_does_what_it_sets_up_unless_all_share_it(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--longest", "0.5", "-rfE"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "1 failed, 1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "the test took 1 s, where 0.5 s are the most: make it cheaper, or mark" in done.stdout
    assert "the fixture 'of_the_file' took 1 s" in done.stdout


@pytest.fixture
def exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was exported since, each a folder with one file, below a cache of its own."""
    made: list[Path] = []

    def export(directory: Path) -> None:
        made.append(directory)
        directory.mkdir()
        (directory / "file").write_text(str(len(made)))

    monkeypatch.setattr(exported, "KEPT", tmp_path / "cache")
    monkeypatch.setitem(exported.EXPORTS, "tiny", export)
    return made


def test_an_artifact_is_exported_once_however_many_ask(exports: list[Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(exported.exported, ["tiny"] * 8))
    assert len(folders) == len(exports) == 1
    assert (folders.pop() / "file").read_text() == "1"


def test_it_is_exported_anew_for_other_code_or_packages(exports: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first = exported.exported("tiny")
    monkeypatch.setattr(exported, "version", lambda package: "another")
    exported.digest.cache_clear()
    second = exported.exported("tiny")
    monkeypatch.undo()
    exported.digest.cache_clear()
    assert first != second
    assert len(exports) == 2


def test_an_export_that_fails_leaves_nothing_that_looks_like_one(exports: list[Path]) -> None:
    exported.EXPORTS["tiny"] = lambda directory: directory.mkdir() or pytest.fail("no room")
    with pytest.raises(pytest.fail.Exception, match="no room"):
        exported.exported("tiny")
    assert [path.suffix for path in exported.KEPT.iterdir()] == [".lock"]
