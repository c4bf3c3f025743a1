"""Every command meets Ctrl-C, a full disk, a read-only folder and inputs that vanish.

It says so in a line, ends with the right code, leaves nothing half under a final name, and succeeds the next time.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import adverse
import pytest
from adversity import ROWS, Row, write_inputs
from typed import command_names

from diptych import Collection
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.verify import verify_store

DEPENDS_ON = (
    "service/diptych/batch",
    "service/diptych/cli",
    "service/diptych/collection",
    "service/diptych/command_tree.py",
    "service/diptych/console.py",
    "service/diptych/dedupe/actions",
    "service/diptych/dedupe/report",
    "service/diptych/http/server.py",
    "service/diptych/labelling",
    "service/diptych/signals.py",
    "service/diptych/store",
    "export/diptych_export/artifact.py",
    "export/diptych_export/cli.py",
    "training/diptych_training/cli.py",
    "training/diptych_training/run.py",
    "tests/endurance/adversity.py",
)

CHILD = Path(__file__).with_name("adverse.py")
ROOM = 8 * 2**20  # bytes of the small disk
NO_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'diptych[ray]'")


def test_every_command_has_a_row():
    assert {row.command for row in ROWS} == set(command_names())


def rows(wanted) -> list:
    """The rows that a law is about."""
    return [
        pytest.param(
            row,
            id=f"{row.command}-{number}",
            marks=[pytest.mark.ray, NO_RAY] * ("--engine ray" in row.words),
        )
        for number, row in enumerate(ROWS)
        if wanted(row)
    ]


class Place:
    """Inputs, a folder for outputs, and a command run between them."""

    def __init__(self, folder: Path, template: Path, row: Row, environment: dict[str, str]) -> None:
        self.row, self.template = row, template
        self.inputs, self.out = folder / "in", folder / "out"
        self.restore()
        self.out.mkdir()
        self.environment = environment | {"DIPTYCH_DATA": str(self.inputs), "XDG_CACHE_HOME": str(folder / "cache")}

    def restore(self) -> None:
        """Put the inputs back as they were."""
        shutil.copytree(self.template / "in", self.inputs, dirs_exist_ok=True)
        for journal in self.inputs.glob("*.jsonl"):
            journal.write_text(journal.read_text().replace(str(self.template), str(self.inputs.parent)))

    def fill(self) -> None:
        """Put a collection where the row needs one."""
        if self.row.store:
            shutil.copytree(self.template / "store", self.out / "store", dirs_exist_ok=True)
            with Store.open(self.out / "store") as store:
                was = store.under(str(self.template))
                store.relocate(
                    (id, path, path.replace(str(self.template / "in"), str(self.inputs))) for id, path in was.items()
                )

    def path(self, name: str) -> Path:
        return Path(name.replace("{in}", str(self.inputs)).replace("{out}", str(self.out)))

    def run(self, what: str = "", seconds: float = 300) -> subprocess.CompletedProcess[str]:
        """Run the command; with `what`, until the middle, and then that happens."""
        line = self.row.line(str(self.inputs), str(self.out))
        command = [sys.executable, str(CHILD), self.row.hook if what else "", what, *line]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=seconds, check=False, cwd=self.inputs
        )
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        assert not what or adverse.MET in done.stderr, f"never came to {self.row.hook}: {done.stderr}"
        return done

    def halves(self) -> list[str]:
        """What is under a final name in the outputs though the command did not succeed."""
        found = []
        for name in self.row.writes:
            path = self.out / name
            if (path / "collection.sqlite").is_file():
                with Store.open(path, read_only=True) as store:
                    found += verify_store(store).problems
            elif path.is_file() or (path / "manifest.json").is_file():
                found.append(name)
        return found

    def complaint(self, done: subprocess.CompletedProcess[str]) -> str:
        """What was said of what did not work: an error, or what the row reports of single pictures."""
        if "diptych: error: " in done.stderr:
            return done.stderr
        assert any(text in done.stdout for text in self.row.reports), done.stdout + done.stderr
        return done.stdout

    def succeeds_now(self) -> None:
        if self.row.again:
            done = self.run()
            assert done.returncode == 0, done.stderr
            assert all((self.out / name).exists() for name in self.row.writes)


@pytest.fixture(scope="module")
def template(tmp_path_factory, artifact, scorer, photo_bytes) -> Path:
    """All that any command reads, and a collection of the photos."""
    folder = tmp_path_factory.mktemp("template")
    write_inputs(folder / "in", artifact, photo_bytes)
    with Collection.open(folder / "store", scorer, create=True) as collection:
        collection.add(sorted((folder / "in/photos").glob("?.jpg")))
    shutil.copytree(folder / "store", folder / "in/copy")
    return folder


@pytest.fixture
def place(request, tmp_path, template, environment) -> Place:
    made = Place(tmp_path, template, request.param, environment)
    made.fill()
    return made


@pytest.fixture
def disk(request, tmp_path, template, environment) -> Iterator[Place]:
    """A place whose folder for outputs is a small disk of its own."""
    if os.geteuid():
        pytest.skip("a small disk can only be mounted by root")
    made = Place(tmp_path, template, request.param, environment)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(made.out)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        made.fill()
        made.environment |= {"TMPDIR": str(made.out), "RAY_TMPDIR": tempfile.gettempdir()}  # for sockets: a short path
        yield made
    finally:
        subprocess.run(["umount", "-l", str(made.out)], check=True)


@pytest.mark.parametrize("place", rows(lambda row: True), indirect=True)
def test_ctrl_c_is_130_and_the_same_command_succeeds_after_it(place: Place):
    done = place.run(adverse.INTERRUPT)
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    assert place.halves() == []
    place.succeeds_now()


@pytest.mark.parametrize("disk", rows(lambda row: row.writes), indirect=True)
def test_a_full_disk_is_said_and_the_same_command_succeeds_when_there_is_room(disk: Place):
    filler = disk.out / ".filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    done = disk.run()
    assert done.returncode == 1, done.stderr
    said = disk.complaint(done)
    assert "No space left" in said or "full" in said
    filler.unlink()
    assert disk.halves() == []
    disk.succeeds_now()


@pytest.mark.parametrize("disk", rows(lambda row: row.writes), indirect=True)
def test_a_read_only_folder_is_said_and_nothing_is_changed(disk: Place):
    subprocess.run(["mount", "-o", "remount,ro", str(disk.out)], check=True)
    done = disk.run()
    assert done.returncode == 1, done.stderr
    said = disk.complaint(done)
    assert "ead-only" in said or "readonly" in said
    subprocess.run(["mount", "-o", "remount,rw", str(disk.out)], check=True)
    assert disk.halves() == []


@pytest.mark.parametrize("disk", rows(lambda row: row.store and not row.writes), indirect=True)
def test_what_only_reads_a_collection_reads_one_that_is_read_only(disk: Place):
    subprocess.run(["mount", "-o", "remount,ro", str(disk.out)], check=True)
    done = disk.run()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("place", rows(lambda row: row.reads), indirect=True)
def test_an_input_that_is_gone_is_named_and_the_same_command_succeeds_when_it_is_back(place: Place):
    gone = place.path(str(place.row.reads))
    adverse.strike(str(gone))
    done = place.run()
    assert done.returncode == 1, done.stderr
    assert gone.name in done.stderr + done.stdout
    assert [half for half in place.halves() if half != gone.name] == []
    place.restore()
    place.fill()
    place.succeeds_now()


@pytest.mark.parametrize("place", rows(lambda row: row.reads and row.again), indirect=True)
def test_an_input_that_goes_in_the_middle_is_said_or_was_not_needed_any_more(place: Place):
    done = place.run(str(place.path(str(place.row.reads))))
    assert done.returncode in (0, 1), done.stderr
    said, known = done.stdout + done.stderr, ("diptych: error: ", "cannot be read", "is gone", *place.row.reports)
    assert done.returncode == 0 or any(text in said for text in known), said
