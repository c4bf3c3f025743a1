import os

import pytest

from diptych_runtime.threads import cgroup_quota, thread_count


def test_the_thread_count_is_within_what_this_process_may_use():
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert 1 <= thread_count() <= (allowed or 1)


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, "0::/a/b\n", 0.5),
        ({"cpu.max": "200000 100000"}, "0::/outside/this/view\n", 2.0),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/\n9:memory:/x\n", 3.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/\n", None),
        (
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
            "4:cpu,cpuacct:/x\n",
            0.5,
        ),
        ({"cpu.max": "nonsense"}, "0::/\n", None),
        ({}, "0::/\n", None),
    ],
)
def test_the_tightest_quota_of_all_levels_counts(files, membership, expected, tmp_path):
    root = tmp_path / "cgroup"
    root.mkdir()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "membership").write_text(membership)
    assert cgroup_quota(root, tmp_path / "membership") == expected


def test_a_machine_without_control_groups_has_no_quota(tmp_path):
    assert cgroup_quota(tmp_path, tmp_path / "absent") is None
