"""What the tests rest on: things made once a machine, a limit to what one may take, and the endurance of a change."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cached
import changed
import pytest

SAMPLE = """
import time
import pytest

def work():
    ends = time.process_time() + 0.7
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
    time.sleep(0.7)

def test_of_something_long(of_the_file):
    pass
"""


def test_a_test_that_takes_too_long_fails_and_so_does_what_it_sets_up_unless_all_share_it(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--longest", "0.5", "-rfE"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "1 failed, 2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "the test took 1 s of a processor, where 0.5 s are the most: make it cheaper, or mark" in done.stdout
    assert "the fixture 'of_the_file' took 1 s of a processor" in done.stdout


class Making:
    """What is made here, with a cache of its own: `made` are the folders, each with one file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, list[Path]()
        self.code = folder / "code.py"
        self.code.write_text("one")

    def ask(self, number: int = 0, packages: tuple[str, ...] = ()) -> str:
        """The content of the file in the copy with this number."""
        target = self.folder / f"copy-{number}"
        return (cached.cached("thing", target, self.make, sources=[self.code], packages=packages) / "file").read_text()

    def make(self, folder: Path) -> None:
        self.made.append(folder)
        folder.mkdir()
        (folder / "file").write_text(str(len(self.made)))


@pytest.fixture
def making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Making:
    monkeypatch.setattr(cached, "KEPT", tmp_path / "cache")
    monkeypatch.setattr(cached, "ROOT", tmp_path)
    cached.digest.cache_clear()
    return Making(tmp_path)


def test_it_is_made_once_however_many_ask_and_each_has_a_copy_to_change(making: Making) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(making.ask, range(8))) == {"1"}
    assert len(making.made) == 1
    (making.folder / "copy-0" / "file").write_text("changed")
    assert making.ask(9) == "1"


def test_it_is_made_anew_for_other_code_and_for_other_packages(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    assert making.ask(1) == "1"
    making.code.write_text("two")
    cached.digest.cache_clear()
    assert making.ask(2) == "2"
    assert making.ask(3, ("pytest",)) == "3"
    cached.digest.cache_clear()
    monkeypatch.setattr(cached, "version", lambda package: "another")
    assert making.ask(4, ("pytest",)) == "4"
    assert making.ask(5, ("pytest",)) == "4"


def test_what_fails_leaves_nothing_that_looks_made(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "make", lambda folder: folder.mkdir() or pytest.fail("no room"))
    with pytest.raises(pytest.fail.Exception, match="no room"):
        making.ask()
    assert [path.suffix for path in cached.KEPT.iterdir()] == [".lock"]


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


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`checkout("file", days=2)` commits a file, so many days ago."""
    for name in ("AUTHOR", "COMMITTER"):
        for key in ("NAME", "EMAIL"):
            monkeypatch.setenv(f"GIT_{name}_{key}", "nobody")
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "main"], cwd=tmp_path, check=True)

    def commit(name: str, days: float) -> None:
        (tmp_path / name).write_text(name)
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{int(time.time() - days * 86_400)} +0000")
        subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
        subprocess.run(["git", "commit", "--quiet", "--message", name], cwd=tmp_path, check=True)

    return commit


def test_what_changed_is_all_since_the_day_before_the_last_commit_and_what_is_not_committed(
    checkout: Callable[..., None], tmp_path: Path
) -> None:
    assert changed.list_changes(None) is None, "there is no history yet"
    checkout("first", days=9)
    assert changed.list_changes(None) is None, "it does not reach back far enough"
    for name, days in (("second", 8.5), ("third", 5), ("fourth", 4.5)):
        checkout(name, days=days)
    (tmp_path / "fifth").touch()
    assert changed.list_changes(None) == {"third", "fourth", "fifth"}
    assert changed.list_changes("HEAD^") == {"fourth", "fifth"}
    subprocess.run(["git", "update-ref", "refs/remotes/origin/main", "HEAD~2"], cwd=tmp_path, check=True)
    assert changed.list_changes(None) == {"third", "fourth", "fifth"}, "all of a branch, however old"
    assert changed.list_changes("0" * 40) is None
