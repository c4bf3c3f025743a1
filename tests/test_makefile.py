"""The Makefile as a newcomer meets it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from started import free_port

ROOT = Path(__file__).parents[1]
NOT_SOURCE = (
    ".git",
    ".cache",
    ".venv*",
    "dist",
    "runs",
    "demo",
    "store",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
)

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="there is no make")


def make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *arguments], cwd=cwd, capture_output=True, text=True, env=environment, timeout=1800)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the sources without anything that was built or drawn, which is at the top."""

    def built(folder: str, names: list[str]) -> set[str]:
        return shutil.ignore_patterns(*NOT_SOURCE)(folder, names) if Path(folder) == ROOT else {"__pycache__"}

    return Path(shutil.copytree(ROOT, tmp_path / "checkout", ignore=built))


def test_make_alone_lists_every_target_with_its_purpose() -> None:
    targets = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    names = targets[1].split()
    assert {"run", "test", "endurance", "lint", "types", "format", "demo", "wheel", "train", "clean"} <= set(names)
    done = make()
    assert done.returncode == 0
    listed = dict(re.findall(r"^  make (\w+) +(.+)$", done.stdout, re.MULTILINE))
    assert all(listed.get(name) for name in names), sorted(set(names) - set(listed))


def test_an_old_python_is_refused_by_its_version_and_nothing_is_made(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    for target in ("run", "test"):
        done = make(target, f"PYTHON={old}", cwd=tmp_path)
        assert done.returncode != 0
        assert "needs Python 3.11 or newer" in done.stderr
        assert "Python 3.9.1" in done.stderr
    assert not list(tmp_path.glob(".venv*"))


def answer(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read()
    except (urllib.error.URLError, ConnectionError):
        return None


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A checkout with this environment in place of one of its own, whose `diptych serve` ends at once."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("python", "diptych"):
        program = tmp_path / ".venv/bin" / name
        words = f'exec "{sys.executable}" "$@"' if name == "python" else f'exec "{sys.executable}" -m diptych "$@"'
        program.write_text(f'#!/bin/sh\n[ "$1" = serve ] && exit 0\n{words}\n')
        program.chmod(0o755)
    (tmp_path / ".venv/installed").touch()
    return tmp_path


def test_make_run_with_an_empty_folder_or_none_says_what_to_name(installed: Path) -> None:
    (installed / "empty/album").mkdir(parents=True)
    said = make("run", "PHOTOS=empty", f"PORT={free_port()}", cwd=installed)
    assert said.returncode != 0
    assert f"there is no file in {installed / 'empty'}; name a folder of pictures" in said.stderr
    assert "PHOTOS names no folder: none" in make("run", "PHOTOS=none", cwd=installed).stderr
    assert "PORT is a number from 1 to 65535, not abc" in make("run", "PORT=abc", cwd=installed).stderr
    said = make("run", "HOST=0.0.0.0", cwd=installed)
    assert (said.returncode, "other machines may reach 0.0.0.0; put a line of" in said.stderr) == (2, True)


@pytest.mark.slow
def test_make_run_in_a_fresh_checkout_answers_its_own_two_commands_and_ends_quietly(
    checkout: Path, photo_bytes: Callable[..., bytes]
) -> None:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHONPATH"))}
    log, begun = checkout / "run.log", time.monotonic()
    with log.open("w") as output:
        running = subprocess.Popen(
            ["make", "run", f"PORT={port}"],
            cwd=checkout,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    try:
        while answer(f"http://127.0.0.1:{port}/readyz") is None:
            assert running.poll() is None, log.read_text()
            assert time.monotonic() - begun < 1800, log.read_text()
            time.sleep(0.5)
        print(f"make run answered /readyz after {time.monotonic() - begun:.0f} s")
        said = log.read_text()
        curl, activate, search = re.findall(r"^  (curl .+|source .+|diptych search .+)$", said, re.MULTILINE)
        if shutil.which("curl"):
            found = subprocess.run(curl, shell=True, cwd=checkout, capture_output=True, text=True, check=True)
            assert len(json.loads(found.stdout)["matches"]) == 5
        typed = ["bash", "-c", f"{activate} && {search} --json"]
        found = subprocess.run(typed, cwd=checkout, capture_output=True, text=True, check=True)
        assert len(json.loads(found.stdout)["matches"]) == 5
        photo = checkout / "IMG_0001.heic"
        photo.write_bytes(photo_bytes(1, (64, 48), "HEIF"))
        words = ["score", str(photo), str(photo), "--json"]
        subprocess.run([checkout / ".venv/bin/diptych", *words], check=True, capture_output=True)
        second = make("run", f"PORT={port}", cwd=checkout)
        assert second.returncode != 0
        assert f"cannot listen on 127.0.0.1:{port}" in second.stderr
    finally:
        os.killpg(running.pid, signal.SIGINT)
        ended = running.wait(60)
    assert ended in (0, -signal.SIGINT), log.read_text()
    assert "Traceback" not in log.read_text()
    assert not list((checkout / ".venv/lib").glob("*/site-packages/torch"))
