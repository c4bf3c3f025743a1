"""The engine on real Ray clusters of this machine, several nodes each, some of which are lost."""

import csv
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from diptych import Collection, Scorer
from diptych.batch.job import Job
from diptych.batch.workers.executor import Serial
from diptych.batch.workers.tasks import WorkerConfig
from diptych_studies.benchmarks.collection import draw_cuts

DEPENDS_ON = ("service/diptych/batch", "service/diptych/collection", "service/diptych/dedupe")

pytestmark = pytest.mark.ray
SMALL = WorkerConfig("photo-small")  # it needs half the time of `photo`
_NODES = """
import glob, os, signal, sys, time
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # of 15 by default: other tests beside this one would leave them nothing
from ray.cluster_utils import Cluster
head = {"num_cpus": 0, "object_store_memory": 100 * 2**20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
add = lambda: cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
nodes = [add() for _ in range(int(sys.argv[1]))]

def workers(node):
    raylet = node.all_processes["raylet"][0].process.pid
    return [int(pid) for one in glob.glob(f"/proc/{raylet}/task/*/children") for pid in open(one).read().split()]

def busy(node):  # Ray calls a worker by what it is at
    try:
        return any(open(f"/proc/{pid}/cmdline").read().startswith("ray::_call") for pid in workers(node))
    except OSError:  # one ended meanwhile
        return False

print(cluster.address, flush=True)
for line in sys.stdin:
    if line == "add\\n":
        nodes.append(add())
        print("added", flush=True)
        continue
    end = time.monotonic() + 60
    while (node := next(filter(busy, nodes), None)) is None:
        if time.monotonic() > end:
            sys.exit("no node works on anything")
        time.sleep(0.005)
    # Its workers too: they would finish what they are at, which on a machine without power they do not.
    for pid in workers(node):
        os.kill(pid, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)
    nodes.remove(node)
    print("removed", flush=True)
cluster.shutdown()
"""


@pytest.fixture
def nodes(environment):
    """`nodes(3)` starts a cluster of three nodes with one processor each: its process, to `tell` what to do."""
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


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Seven hundred drawn pictures, three parts of a collection, and every tenth of them once more a little smaller."""
    folder = tmp_path_factory.mktemp("photos")
    for number, picture in enumerate(draw_cuts(700, 0)):
        picture.save(folder / f"{number:04d}.jpg", "JPEG", quality=85)
        if number % 10 == 0:
            picture.resize((200, 200)).save(folder / f"{number:04d} smaller.jpg", "JPEG", quality=85)
    return folder


def until(done, process, pause: float = 0.05) -> None:
    """Wait until something is so while a driver runs."""
    limit = time.monotonic() + 300
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(pause)


def until_begun(job, process) -> None:
    """Wait until a job's parts were handed out."""
    until(lambda: list(job.glob("*/o*.json")) or list(job.glob("*/job.json")), process)


def kill_when_left(job, driver) -> None:
    """Kill a driver when a worker has left a part, which the driver would soon take over."""
    until(lambda: list(job.glob("*/*.part")), driver, 0.002)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()


def tell(cluster, what: str, answer: str) -> None:
    """Let a node come, or one that works be lost."""
    cluster.stdin.write(f"{what}\n")
    cluster.stdin.flush()
    assert cluster.stdout.readline() == f"{answer}\n"


def remove_one(cluster) -> None:
    """Let a node be lost that works on something."""
    tell(cluster, "remove", "removed")


def held(store) -> dict:
    """What a collection holds, without when it was added."""
    with Collection.open(store, Scorer.load(threads=1), read_only=True) as collection:
        return {
            one.id: (one.sha256, one.width, *(part.tobytes() for part in collection.panel(one.id)))
            for one in collection.list(10_000)
        }


@pytest.fixture
def large(tmp_path, photo_bytes):
    """A table of 2,000 pairs, of which some cannot be scored: eight parts, long enough to lose one midway."""
    for seed in range(12):
        (tmp_path / f"{seed}.jpg").write_bytes(photo_bytes(seed))
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    rng = random.Random(0)
    with (tmp_path / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "image_b", "image_a"])
        for row in range(2000):
            a = "broken.jpg" if row % 211 == 7 else "gone.jpg" if row % 307 == 5 else f"{rng.randrange(12)}.jpg"
            writer.writerow(
                [("plain", 'with "quotes", commas', "zwölf\nlines")[row % 3], f"{rng.randrange(12)}.jpg", a]
            )
    return tmp_path / "pairs.csv"


def half_done(spawn, table, output, address):
    """A driver that scores a table on a cluster, in the middle of it."""
    driver = spawn("score", table, "-o", output, "--model", SMALL.model, "--engine", "ray", "--address", address)
    parts = output.with_name(f"{output.name}.parts")
    until(lambda: len(list(parts.glob("pairs-*.part"))) >= 3, driver, 0.01)
    return driver


@pytest.fixture
def bereft(nodes, large, spawn, tmp_path):
    """`bereft(3)` is a cluster of 3 nodes that lost one in the middle of a table, and the driver; in the end the output
    must be what an undisturbed run writes.
    """
    Job(large, tmp_path / "whole.csv", "csv", SMALL).run(Serial())
    output = tmp_path / "out.csv"

    def make(count: int):
        process, address = nodes(count)
        driver = half_done(spawn, large, output, address)
        remove_one(process)
        assert not output.exists(), "it was done before the node was lost"
        return process, driver

    yield make
    assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_node_that_is_lost_midway_changes_not_a_byte(bereft):
    _, driver = bereft(3)
    out, err = driver.communicate(timeout=600)
    assert driver.returncode == 1, "some pairs have errors"
    assert out.startswith("2,000 pairs in"), "and nothing else"
    assert "a worker was lost" in err


def test_a_job_waits_for_another_node_where_the_last_was_lost(bereft):
    process, driver = bereft(1)
    said = ""
    while "no node left that can work" not in said:
        line = driver.stderr.readline()
        assert line, said
        said += line
    tell(process, "add", "added")
    said += driver.communicate(timeout=600)[1]
    assert driver.returncode == 1, said


def test_a_driver_that_is_killed_goes_on_with_either_engine(nodes, large, spawn, tmp_path):
    Job(large, tmp_path / "whole.csv", "csv", SMALL).run(Serial())
    _, address = nodes(2)
    ways = (
        ("ray.csv", signal.SIGKILL, ["--engine", "ray", "--address", address]),
        ("local.csv", signal.SIGINT, ["--workers", 2]),
    )
    for name, by, rest in ways:
        output = tmp_path / name
        driver = half_done(spawn, large, output, address)
        driver.send_signal(by)
        _, err = driver.communicate(timeout=300)
        assert driver.returncode == (130 if by == signal.SIGINT else -signal.SIGKILL), err
        assert "Traceback" not in err
        assert not output.exists()
        again = spawn("score", large, "-o", output, "--model", SMALL.model, *rest, "--resume", "--json")
        out, err = again.communicate(timeout=600)
        assert again.returncode == 1, err
        assert 0 < json.loads(out)["scored"] < 2_000
        assert output.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_cluster_that_does_not_answer_or_is_too_small_is_refused(nodes, large, spawn, tmp_path):
    _, address = nodes(1)
    command = ["score", large, "-o", tmp_path / "out.csv", "--engine", "ray", "--resume"]
    for rest, said in (
        (["--address", address, "--threads", 99], "no node of the Ray cluster has 99 processors"),
        (["--address", "127.0.0.1:1"], "the Ray cluster 127.0.0.1:1 cannot be reached"),
    ):
        out, err = spawn(*command, *rest).communicate(timeout=600)
        assert out == ""
        assert said in err
        assert err.splitlines()[-1].startswith("diptych: error: "), err


def test_a_collection_is_the_same_when_a_node_is_lost_and_the_driver_killed(nodes, photos, spawn, tmp_path):
    out, err = spawn("index", "add", photos, "--store", tmp_path / "alone", "--json").communicate(timeout=900)
    assert json.loads(out)["added"] == 770, err
    cluster, address = nodes(3)
    command = ["index", "add", photos, "--store", tmp_path / "shared", "--engine", "ray", "--address", address]
    driver = spawn(*command)
    kill_when_left(tmp_path / "shared" / "embedding.parts", driver)
    (killed,) = (tmp_path / "shared" / "embedding.parts").iterdir()
    driver = spawn(*command)
    until(lambda: not killed.exists(), driver)  # it was cleared away
    until_begun(tmp_path / "shared" / "embedding.parts", driver)
    remove_one(cluster)
    out, err = driver.communicate(timeout=900)
    assert driver.returncode == 0, err
    assert re.fullmatch(r"[\d,]+ added, [\d,]+ already there, 0 refused\n770 pictures in .*\n", out), out
    assert "a worker was lost" in err
    assert held(tmp_path / "shared") == held(tmp_path / "alone")


def test_groups_are_the_same_when_nodes_are_lost_and_when_the_driver_is_killed(nodes, photos, spawn, tmp_path):
    found, few = {}, tmp_path / "photos"
    few.mkdir()
    for photo in photos.glob("0[01]*"):  # closer looks at the copies among all of them take minutes
        shutil.copy(photo, few)
    for name, rest in (("alone", []), ("shared", ["--engine", "ray", "--address"])):
        cluster, address = nodes(3) if rest else (None, None)
        rest = [*rest, address] if rest else rest
        output = ["--store", tmp_path / name, "-o", tmp_path / f"{name}.csv"]
        driver = spawn("dedupe", few, "--model", SMALL.model, "--candidates", 60, *output, *rest)
        if cluster:
            until_begun(tmp_path / name / "embedding.parts", driver)
            remove_one(cluster)
        out, err = driver.communicate(timeout=900)
        assert driver.returncode == 0, err
        assert ("a worker was lost" in err) == bool(cluster), err
        found[name] = out.replace(f"{name}.csv", "groups.csv")
    # And where the driver of a cluster was killed, a run without one goes on.
    cluster, address = nodes(2)
    command = ["dedupe", few, "--model", SMALL.model, "--candidates", 60]
    command += ["--store", tmp_path / "left", "-o", tmp_path / "left.csv"]
    driver = spawn(*command, "--engine", "ray", "--address", address)
    kill_when_left(tmp_path / "left" / "embedding.parts", driver)
    out, err = spawn(*command).communicate(timeout=900)
    found["left"] = out.replace("left.csv", "groups.csv")
    assert not list((tmp_path / "left" / "embedding.parts").glob("*")), err
    (groups,) = re.findall(r"^(\d+) groups;", found["alone"], re.M)
    assert int(groups) >= 18
    for name in ("shared", "left"):
        assert found[name] == found["alone"]
        assert (tmp_path / f"{name}.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
