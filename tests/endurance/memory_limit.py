"""A bound of the memory that processes may take from now on, at which the kernel's OOM killer ends one of them."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")


class MemoryLimit:
    """A control group: what a process takes after it came in counts."""

    def __init__(self, folder: Path, limit: str) -> None:
        self.folder, self.limit = folder, limit

    def put(self, pid: int, mib: float) -> None:
        """Let a process, with others that are here, take so many MiB more."""
        (self.folder / self.limit).write_text(str(int(mib * 2**20)))
        (self.folder / "cgroup.procs").write_text(str(pid))


@contextmanager
def memory_limit() -> Iterator[MemoryLimit]:
    """A new group; the test is skipped where none can be made."""
    own = dict(line.strip().split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    if "memory" in own:  # the first version of control groups
        parent, limit = ROOT / "memory" / own["memory"].lstrip("/"), "memory.limit_in_bytes"
    else:
        parent, limit = ROOT, "memory.max"
    folder = parent / f"diptych-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        if not (folder / limit).exists() or not os.access(folder / limit, os.W_OK):
            pytest.skip(f"memory cannot be limited here: no {limit} of a control group")
        yield MemoryLimit(folder, limit)
    finally:
        for pid in (folder / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        folder.rmdir()


def greedy(number: int, *, group: MemoryLimit, folder: Path | None) -> int:
    """Takes more memory than it may at the third part, with a folder once, else always."""
    if number == 3 and not (folder is not None and (folder / "met").exists()):
        if folder is not None:
            (folder / "met").touch()
        group.put(os.getpid(), 16)
        bytearray(200 * 2**20)
    return number
