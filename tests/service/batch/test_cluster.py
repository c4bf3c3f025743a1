"""The engine on real Ray clusters of this machine, several nodes each, some of which are lost."""

import json
import signal
import subprocess
import sys
import time

import pytest

from diptych.batch import cluster
from diptych.batch.job import Job, Serial
from diptych.errors import BatchError

_NODES = """
import glob, os, signal, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
head = {"num_cpus": 0, "object_store_memory": 100 * 2**20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
nodes = [cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20) for _ in range(int(sys.argv[1]))]
print(cluster.address, flush=True)
for line in sys.stdin:
    node = nodes.pop()
    raylet = node.all_processes["raylet"][0].process.pid
    # Its workers too: they would finish what they are at, which on a machine without power they do not.
    for listed in glob.glob(f"/proc/{raylet}/task/*/children"):
        for worker in open(listed).read().split():
            os.kill(int(worker), signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)
    print("removed", flush=True)
cluster.shutdown()
"""


@pytest.fixture
def nodes(environment):
    """`nodes(3)` starts a cluster of three nodes with one processor each: its process, whose lines remove a node."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'diptych[ray]'")
    started = []

    def start(count: int):
        process = subprocess.Popen(
            [sys.executable, "-c", _NODES, str(count)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(process)
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address, "the cluster did not start"
        return process, address

    yield start
    for process in started:
        process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.stdout.close()


@pytest.fixture
def large(pairs):
    """Sixteen times the table: for the photo model long enough to lose something in the middle."""
    header, *lines = pairs.read_text(encoding="utf-8").splitlines(keepends=True)
    pairs.write_text("".join([header, *lines * 16]), encoding="utf-8")
    return pairs


def until_half_done(parts, process) -> None:
    """Wait until some pairs are scored, and not all."""
    limit = time.monotonic() + 120
    while len(list(parts.glob("pairs-*.part"))) < 5:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_without_ray_the_error_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BatchError, match=r"needs Ray; install it with `pip install 'diptych\[ray\]'`"):
        cluster.Cluster()


@pytest.mark.ray
@pytest.mark.slow
def test_a_node_that_is_lost_midway_changes_not_a_byte(nodes, large, spawn, tmp_path):
    Job(large, tmp_path / "whole.csv", "csv").run(Serial())
    process, address = nodes(3)
    output = tmp_path / "out.csv"
    driver = spawn("score", large, "-o", output, "--engine", "ray", "--address", address)
    until_half_done(tmp_path / "out.csv.parts", driver)
    process.stdin.write("remove\n")
    process.stdin.flush()
    assert process.stdout.readline() == "removed\n"
    assert not output.exists(), "it was done before the node was lost"
    out, err = driver.communicate(timeout=200)
    assert driver.returncode == 1, "some pairs have errors"
    assert "16,000 pairs" in out
    assert "a worker was lost" in err
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.ray
@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_with_either_engine(nodes, large, spawn, tmp_path):
    Job(large, tmp_path / "whole.csv", "csv").run(Serial())
    _, address = nodes(2)
    for name, rest in (("ray.csv", ["--engine", "ray", "--address", address]), ("local.csv", ["--workers", 2])):
        output = tmp_path / name
        command = ["score", large, "-o", output]
        driver = spawn(*command, "--engine", "ray", "--address", address)
        until_half_done(tmp_path / f"{name}.parts", driver)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        assert not output.exists()
        again = spawn(*command, *rest, "--resume", "--json")
        out, err = again.communicate(timeout=200)
        assert again.returncode == 1, err
        assert 0 < json.loads(out)["scored"] < 16_000
        assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.ray
@pytest.mark.slow
def test_a_cluster_that_does_not_answer_or_is_too_small_is_refused(nodes, pairs, spawn, tmp_path):
    _, address = nodes(1)
    command = ["score", pairs, "-o", tmp_path / "out.csv", "--engine", "ray", "--resume"]
    for rest, said in (
        (["--address", address, "--threads", 99], "no node of the Ray cluster has 99 processors"),
        (["--address", "127.0.0.1:1"], "the Ray cluster 127.0.0.1:1 cannot be reached"),
    ):
        out, err = spawn(*command, *rest).communicate(timeout=200)
        assert out == ""
        assert said in err
        assert err.splitlines()[-1].startswith("diptych: error: "), err
