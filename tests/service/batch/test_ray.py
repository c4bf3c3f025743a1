"""What is said of clusters that are not there; tests/endurance/test_ray_loss.py has clusters, and loses nodes."""

import sys
import time
from types import SimpleNamespace

import pytest

from diptych.batch.workers import ray as cluster
from diptych.batch.workers.executor import RetryQueue
from diptych.errors import BatchError


def test_without_ray_the_error_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BatchError, match=r"needs Ray; install it with `pip install 'diptych\[ray\]'`"):
        cluster.Cluster()


class Empty:
    """Ray with a cluster that has one node until it has none, and gives back nothing."""

    def __init__(self) -> None:
        self.looks = 0

    def nodes(self) -> list[dict]:
        self.looks += 1
        return [{"Resources": {"CPU": 1}, "Alive": self.looks == 1}]

    def remote(self, **_: object):
        return lambda function: SimpleNamespace(remote=lambda *_: object())

    def wait(self, waiting: list, timeout: float) -> tuple[list, list]:
        return [], waiting


def test_a_cluster_without_nodes_is_said_once_and_waited_for_only_so_long(monkeypatch):
    monkeypatch.setattr(cluster, "_import_ray", Empty)
    monkeypatch.setattr(cluster, "_LOOK", 0.0)
    monkeypatch.setattr(cluster, "_WAIT", 0.2)
    began, said = time.monotonic(), []
    with pytest.raises(BatchError, match=r"has had no node that can work for 0 s; what is done is kept: start one"):
        list(cluster.Cluster().run(print, RetryQueue([1], str, said.append)))
    assert 0.2 <= time.monotonic() - began < 5
    assert said == ["the Ray cluster has no node left that can work; waiting 0 s for one"]


@pytest.mark.ray
def test_a_folder_whose_name_is_too_long_for_sockets_is_said(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'diptych[ray]'")
    long = tmp_path / ("n" * 100)
    long.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(long))
    with pytest.raises(BatchError, match=r"begun here, in RAY_TMPDIR or else TMPDIR: .* 107 bytes"):
        cluster.Cluster().__enter__()
