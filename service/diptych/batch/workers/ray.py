"""Parts done by the nodes of a Ray cluster, any of which may be lost at any moment. Ray is an extra."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from time import monotonic
from typing import Any

from diptych.batch.workers.executor import RetryQueue, Work
from diptych.errors import BatchError
from diptych_runtime.session import thread_count

_AHEAD = 2  # parts handed out for each that the cluster can work on
_LOOK = 5.0  # seconds after which a driver that waits looks at the cluster again
_ANSWER = 10.0  # seconds within which a cluster has to take a connection
_WAIT = 300.0  # seconds for which a cluster may be without a node that can work
_SOCKET = re.compile(r"([^/]+):(\d+)")
_OBJECTS = 100 * 2**20  # bytes for Ray's own store of a cluster begun here: only numbers go through it


class Cluster:
    """`with Cluster("head:6379", threads=1) as cluster: for number in cluster.run(work, attempts): ...`

    Without an address a cluster of this machine alone, for as long as it is open. A part takes as many processors as it
    has `threads`. The nodes need Diptych with this model, and see the output's folder and that of the pictures.
    """

    def __init__(self, address: str | None = None, *, threads: int = 1) -> None:
        self.address, self.threads = address, threads
        self._ray = _import_ray()
        self._open = ExitStack()

    def __enter__(self) -> Cluster:
        """Connect. Raises BatchError where nobody answers, or no node is large enough."""
        # Nobody is asked to look at the dashboard of a cluster that ends with its job.
        here = {"num_cpus": thread_count(), "object_store_memory": _OBJECTS, "include_dashboard": False}
        options: dict[str, Any] = {"address": self.address} if self.address else {"address": "local", **here}
        try:
            if found := _SOCKET.fullmatch(self.address or ""):
                # Ray itself would try for minutes.
                socket.create_connection((found[1], int(found[2])), timeout=_ANSWER).close()
            self._ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            if self.address:
                raise BatchError(f"the Ray cluster {self.address} cannot be reached: {error}") from None
            raise BatchError(f"no Ray cluster can be begun here, in RAY_TMPDIR or else TMPDIR: {error}") from None
        with ExitStack() as opened:
            # Ray prints what happens to nodes to standard output, where a result is to be, and nothing else.
            opened.enter_context(redirect_stdout(sys.stderr))
            opened.callback(self._ray.shutdown)
            if not self._count_slots():
                raise BatchError(f"no node of the Ray cluster has {self.threads} processors; ask for fewer --threads")
            self._open = opened.pop_all()
        return self

    def run(self, work: Work, attempts: RetryQueue) -> Iterator[int]:
        """The number of each part as soon as it is done. Raises what the work raises, and BatchError."""
        remote = self._ray.remote(num_cpus=self.threads, max_retries=0)(_call_work)
        busy: dict[Any, int] = {}
        slots, looked, alone = self._count_slots(), monotonic(), None
        while attempts or busy:
            while attempts and len(busy) < _AHEAD * max(1, slots):
                number = attempts.take_part()
                busy[remote.remote(work, number)] = number
            done, _ = self._ray.wait(list(busy), timeout=_LOOK)
            if monotonic() - looked > _LOOK:
                slots, looked = self._count_slots(), monotonic()
                alone = None if slots else _wait_for_node(alone, attempts)
            for reference in done:
                number = busy.pop(reference)
                try:
                    self._ray.get(reference)
                except self._ray.exceptions.RayTaskError as error:
                    # Raised by the work itself, wherever that was.
                    raise (error.cause if isinstance(error.cause, Exception) else error) from None
                except self._ray.exceptions.RayError as error:
                    attempts.requeue_lost(number, type(error).__name__)
                else:
                    yield number

    def _count_slots(self) -> int:
        """Count the parts that the cluster can work on at a time."""
        nodes = (node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"])
        return sum(int(processors // self.threads) for processors in nodes)

    def __exit__(self, *_: object) -> None:
        # What is still being worked on is given up with the connection.
        self._open.close()


def _wait_for_node(since: float | None, attempts: RetryQueue) -> float:
    """Say once that no node can work; returns since when. Raises BatchError after a while."""
    if since is None:
        attempts.say(f"the Ray cluster has no node left that can work; waiting {_WAIT:.0f} s for one")
        return monotonic()
    if monotonic() - since > _WAIT:
        lost = f"the Ray cluster has had no node that can work for {_WAIT:.0f} s"
        raise BatchError(f"{lost}; what is done is kept: start one and run this again")
    return since


def _call_work(work: Work, number: int) -> None:
    work(number)


def _import_ray() -> Any:
    # Before it is imported: nothing is reported to anybody.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.exceptions  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BatchError("the engine ray needs Ray; install it with `pip install 'diptych[ray]'`") from None
    return ray
