"""How many threads this process may really use: the affinity mask and the container's quota, not the host's cores."""

from __future__ import annotations

import math
import os
from pathlib import Path


def thread_count() -> int:
    """The number of threads worth starting here, at least 1: allowed cores, capped by the cgroup's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def cgroup_quota(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """The cores this process's control groups grant it (version 1 or 2), the tightest of all levels; None: no limit."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        if controllers and not base.is_dir():
            base = root / "cpu"
        # Inside a container the path may name a place outside of its own view; its root then holds the limit.
        levels = [base / path.strip("/"), *(base / path.strip("/")).parents]
        quotas += [quota for level in levels if level.is_relative_to(base) and (quota := _quota(level)) is not None]
    return min(quotas, default=None)


def _quota(group: Path) -> float | None:
    try:
        if (group / "cpu.max").exists():
            limit, period = (group / "cpu.max").read_text().split()
            return None if limit == "max" else int(limit) / int(period)
        limit = int((group / "cpu.cfs_quota_us").read_text())
        return None if limit < 0 else limit / int((group / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return None
