"""What the tests rest on: things made once a machine, a limit to what one may take, and the endurance of a change."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cached
import changed
import pytest

SAMPLE = """
import time
import pytest

def work():
    ends = time.process_time() + 0.3
    while time.process_time() < ends:
        pass

@pytest.fixture(scope="session")
def of_the_run():
    work()

@pytest.fixture(scope="module")
def of_the_file():
    work()

def test_quick(of_the_run):
    pass

def test_long():
    work()

def test_that_waits():
    time.sleep(0.3)

def test_of_something_long(of_the_file):
    pass
"""


def test_a_test_that_takes_too_long_fails_and_so_does_what_it_sets_up_unless_all_share_it(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--longest", "0.2", "-rfE"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "1 failed, 2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "the test took 0 s of a processor, where 0.2 s are the most: make it cheaper, or mark" in done.stdout
    assert "the fixture 'of_the_file' took 0 s of a processor" in done.stdout


def test_what_is_cached_is_made_once_for_its_code_and_packages_and_not_kept_where_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "KEPT", tmp_path / "cache")
    monkeypatch.setattr(cached, "ROOT", tmp_path)
    made, code = [], tmp_path / "code.py"

    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir()
        if code.read_text() == "broken":
            raise ValueError("no room")
        (folder / "file").write_text(str(len(made)))

    def ask(copy: int, *packages: str) -> str:
        cached.digest.cache_clear()
        return (
            cached.cached("thing", tmp_path / f"{copy}", make, sources=[code], packages=packages) / "file"
        ).read_text()

    code.write_text("one")
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(8))) == {"1"}
    (tmp_path / "0/file").write_text("changed")
    assert ask(9) == "1", "each has a copy to change"
    code.write_text("two")
    assert ask(10) == "2"
    assert ask(11, "pytest") == "3"
    monkeypatch.setattr(cached, "version", lambda package: "another")
    assert [ask(12, "pytest"), ask(13, "pytest")] == ["4", "4"]
    code.write_text("broken")
    kept = set(cached.KEPT.iterdir())
    with pytest.raises(ValueError, match="no room"):
        ask(14)
    assert {path.suffix for path in set(cached.KEPT.iterdir()) - kept} == {".lock"}


def names_of(*files: str) -> set[str]:
    return {test.stem.removeprefix("test_") for test in changed.select_tests(files)}


def test_every_test_of_endurance_depends_on_files_that_there_are() -> None:
    assert len(changed.list_tests()) > 10
    for test in changed.list_tests():
        for path in changed.read_dependencies(test):
            assert (changed.ROOT / path).exists(), f"{test.name}: {path}"


def test_a_change_needs_the_endurance_that_depends_on_it_and_all_where_what_they_share_has_changed() -> None:
    everything = {test.stem.removeprefix("test_") for test in changed.list_tests()}
    assert names_of("README.md", "service/diptych/http.py") == set()
    assert names_of("model/diptych_model/network.py") == names_of("tests/waiting.py") == {"studies"}
    assert names_of("service/diptych/http/app.py") == {"contract", "fuzz", "out_of_memory", "soak", "soak_writes"}
    assert names_of("tests/endurance/test_fuzz.py") == {"fuzz"}
    for shared in ("tests/endurance/soak.py", "tests/conftest.py", "pyproject.toml"):
        assert names_of(shared) == everything


def test_what_changed_is_all_since_the_day_before_the_last_commit_and_what_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed, "ROOT", tmp_path)

    def git(*words: str, days: float = 0) -> None:
        nobody = {f"GIT_{who}_{key}": "nobody" for who in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
        dated = {"GIT_COMMITTER_DATE": f"{int(time.time() - days * 86_400)} +0000"}
        subprocess.run(["git", *words], cwd=tmp_path, check=True, env=os.environ | nobody | dated)

    git("init", "--quiet", "--initial-branch", "main")
    assert changed.list_changes(None) is None, "there is no history yet"
    for name, days in (("first", 9), ("second", 8.5), ("third", 5), ("fourth", 4.5)):
        (tmp_path / name).touch()
        git("add", ".")
        git("commit", "--quiet", "--message", name, days=days)
        assert days != 9 or changed.list_changes(None) is None, "it does not reach back far enough"
    (tmp_path / "fifth").touch()
    assert changed.list_changes(None) == {"third", "fourth", "fifth"}
    assert changed.list_changes("HEAD^") == {"fourth", "fifth"}
    git("update-ref", "refs/remotes/origin/main", "HEAD~2")
    assert changed.list_changes(None) == {"third", "fourth", "fifth"}, "all of a branch, however old"
    assert changed.list_changes("0" * 40) is None
