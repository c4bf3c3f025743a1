"""Folders with copies whose groups are known, and records that need no files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

COPIES = {"a/1.jpg": 1, "a/2.jpg": 2, "a/3.jpg": 3, "b/1 again.jpg": 1, "b/c/1 once more.jpg": 1, "b/2.jpg": 2}


@pytest.fixture
def photos(tmp_path: Path, photo_bytes) -> Path:
    """Six files of three contents: three times 1, twice 2, once 3. The first of each is the oldest."""
    folder = tmp_path / "photos"
    for number, (name, seed) in enumerate(COPIES.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo_bytes(seed))
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    return folder


@pytest.fixture
def second_view(tmp_path: Path) -> Iterator[Callable[[str, Path], Path]]:
    """`second_view("overlay", folder)` is a folder in which the other is seen too; skips where none can be had."""
    mounted: list[Path] = []

    def mount(*words: object, at: Path) -> Path:
        command = [*map(str, words), str(at)]
        at.mkdir(exist_ok=True)
        if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip(f"no second view of a folder here: {' '.join(command)}")
        mounted.append(at)
        return at

    def view(how: str, folder: Path) -> Path:
        changes, at = tmp_path / "changes", tmp_path / "view"
        if how == "bind":
            return mount("mount", "--bind", folder, at=at)
        if how == "fuse":
            return mount("bindfs", folder, at=at)
        changes.mkdir()
        options = f"lowerdir={folder},upperdir={changes / 'upper'},workdir={changes / 'work'}"
        if how != "overlay":  # which layer a file is of is in its inode, if there are several file systems
            mount("mount", "-t", "tmpfs", "tmpfs", at=changes)
            options += ",xino=on"
        for name in ("upper", "work"):
            (changes / name).mkdir()
        return mount("mount", "-t", "overlay", "-o", options, "overlay", at=at)

    yield view
    for at in reversed(mounted):
        subprocess.run(["umount", at], check=True)


@pytest.fixture
def dedupe(diptych, artifact, tmp_path) -> Callable:
    """`dedupe(folder, ...)` runs the command with the small model; only exact copies match, unless told otherwise."""

    def run(*words: object, threshold: float | str = 1):
        return diptych(
            *("dedupe", *words, "--store", tmp_path / "store", "--model", artifact, "--threads", 1),
            *("--threshold", threshold),
        )

    return run


@pytest.fixture
def bytes_of() -> Callable[[Path], dict[str, bytes]]:
    """`bytes_of(folder)` has the bytes of every file below a folder, by its path in it."""
    return lambda folder: {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
