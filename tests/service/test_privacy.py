"""No command uses the network or writes a file unless it was asked to, as its system calls show."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from urllib.request import urlopen

import pytest
from started import until_ready

NETWORK = "socket,bind,connect,sendto,sendmsg,sendmmsg"
FILES = "creat,link,linkat,mkdir,mkdirat,mknod,mknodat,open,openat,rename,renameat,renameat2,symlink,symlinkat"
FAILED = re.compile(r"= -1 E\w+ \(.*\)$")
PATH = re.compile(r'(?:<(?P<folder>/[^>]*)>, )?"(?P<path>[^"]*)"')


def calls(trace: Path, names: str) -> list[str]:
    """The system calls of these names in what strace wrote, as `name(arguments...`."""
    lines = (line.split(maxsplit=1)[1] for line in trace.read_text(errors="replace").splitlines())
    return [line for line in lines if line.split("(")[0] in names.split(",")]


def internet(trace: Path) -> list[str]:
    """The calls, failed ones too, that have to do with more than sockets between processes of this machine."""
    return [call for call in calls(trace, NETWORK) if re.search(r"AF_INET|sin_addr|TCP|UDP|nscd|resolve", call)]


def written(trace: Path, folder: Path) -> set[Path]:
    """The files that a process in this folder opened for writing, made, linked or renamed; devices left out."""
    found = set()
    for call in calls(trace, FILES):
        reads = call.startswith("open") and not re.search(r"O_WRONLY|O_RDWR|O_CREAT", call)
        if not reads and not FAILED.search(call):
            for match in PATH.finditer(call):
                found.add(folder / (match["folder"] or "") / match["path"])
    own = gettempdir()  # which may be in /dev/shm
    return {path for path in found if path.parts[1] not in ("dev", "proc") or path.is_relative_to(own)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of the commands."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def temporary() -> Iterator[Path]:
    """The folder for temporary files, with a short name: the service has sockets in it, whose names are bounded."""
    with TemporaryDirectory() as folder:
        yield Path(folder).resolve()


@pytest.fixture
def traced(
    tmp_path: Path, home: Path, temporary: Path, spawn, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    """`traced("score", a, b)` starts a command under strace, which writes to `trace`, in an empty folder."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run([strace, "-f", "-o", os.devnull, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"strace may not trace here: {tried.stderr.strip()}")
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")
    for name in [name for name in environment if name.startswith(("XDG_", "ORT_", "DIPTYCH_"))]:
        del environment[name]
    environment |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    watch = [strace, "-f", "-qq", "-y", "-s", "4096", "--seccomp-bpf", "-e", f"trace={NETWORK},{FILES}"]
    return lambda *words: spawn(*words, under=[*watch, "-o", str(tmp_path / "trace")])


def test_scoring_indexing_searching_and_deduplicating_write_where_they_are_told_and_leave_the_network_alone(
    traced, artifact, gallery, tmp_path, home, temporary
):
    store, scores, trace = tmp_path / "store", tmp_path / "scores", tmp_path / "trace"
    first, second = sorted(gallery.glob("*.jpg"))[:2]
    scores.mkdir()
    table = tmp_path / "pairs.csv"
    table.write_text(f"image_a,image_b\n{first},{second}\n")
    for given, words in (
        ([], ("score", first, second)),
        ([scores], ("score", table, "-o", scores / "scores.csv")),
        ([store], ("index", "add", gallery, "--store", store)),
        ([store], ("search", first, "--store", store)),
        ([store], ("dedupe", gallery, "--store", store)),
        ([home / ".cache/diptych/dedupe"], ("dedupe", gallery)),
    ):
        process = traced(*words, "--model", artifact)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        allowed = [*given, temporary]
        stray = [path for path in written(trace, Path.cwd()) if not any(path.is_relative_to(one) for one in allowed)]
        assert [path for path in stray if not any(one.is_relative_to(path) for one in given)] == []
        assert internet(trace) == []
        assert not given or any(path.is_relative_to(given[0]) for path in written(trace, Path.cwd()))
    assert list(home.iterdir()) == [home / ".cache"]
    assert list((home / ".cache").iterdir()) == [home / ".cache/diptych"]
    assert [*temporary.iterdir(), *Path.cwd().iterdir()] == []


def test_the_service_listens_where_it_is_told_and_connects_to_nothing(
    traced, artifact, port, tmp_path, home, temporary
):
    store, trace = tmp_path / "store", tmp_path / "trace"
    process = traced("serve", "--create", "--store", store, "--port", port, "--model", artifact, "--threads", 1)
    until_ready(f"http://127.0.0.1:{port}", process)
    with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
        assert answer.status == 200
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    stray = [path for path in written(trace, Path.cwd()) if not path.is_relative_to(store)]
    assert [path for path in stray if not path.is_relative_to(temporary)] == []
    asked = internet(trace)
    assert {call.split("(")[0] for call in asked} == {"socket", "bind"}, asked
    assert all(f"sin_port=htons({port})" in call and "127.0.0.1" in call for call in asked if call.startswith("bind"))
    assert [*home.iterdir(), *temporary.iterdir(), *Path.cwd().iterdir()] == []


@pytest.mark.parametrize("module", ["diptych_runtime.session", "diptych_export"])
def test_onnx_runtime_keeps_nothing_of_this_user_whichever_module_imports_it_first(module, home, environment):
    kept = {name: value for name, value in environment.items() if not name.startswith(("XDG_", "ORT_"))}
    program = (
        f"import {module}, onnxruntime; from diptych_runtime.session import import_onnxruntime; import_onnxruntime()"
    )
    subprocess.run([sys.executable, "-c", program], env=kept | {"HOME": str(home)}, check=True)
    assert list(home.iterdir()) == []
