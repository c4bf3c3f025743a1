"""Parts done by the nodes of a Ray cluster, any of which may be lost at any moment. Ray is an extra."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from time import monotonic
from types import TracebackType
from typing import Any

from diptych.batch.attempts import Attempts
from diptych.batch.work import Work
from diptych.errors import BatchError
from diptych_export.threads import thread_count

_AHEAD = 2  # parts handed out for each that the cluster can work on
_LOOK = 5.0  # seconds after which a driver that waits looks at the cluster again
_ANSWER = 10.0  # seconds within which a cluster has to take a connection
_SOCKET = re.compile(r"([^/]+):(\d+)")
_OBJECTS = 100 * 2**20  # bytes for Ray's own store of a cluster begun here: only numbers go through it


class Cluster:
    """`with Cluster("head:6379", threads=1) as cluster: for count in cluster.run(work, attempts): ...`

    Without an address a cluster of this machine alone, for as long as it is open. A part takes as many processors as it
    has `threads`. The nodes need Diptych with this model, and see the output's folder and that of the pictures.
    """

    def __init__(self, address: str | None = None, *, threads: int = 1) -> None:
        self.address, self.threads = address, threads
        self._ray = _import_ray()

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
            raise BatchError(f"the Ray cluster {self.address or 'here'} cannot be reached: {error}") from None
        if not self._slots():
            self._ray.shutdown()
            raise BatchError(f"no node of the Ray cluster has {self.threads} processors; ask for fewer with --threads")
        return self

    def run(self, work: Work, attempts: Attempts) -> Iterator[int]:
        """How many items each part had, as soon as it is done. Raises what the work raises, and BatchError."""
        remote = self._ray.remote(num_cpus=self.threads, max_retries=0)(_call)
        busy: dict[Any, int] = {}
        slots, looked = self._slots(), monotonic()
        while attempts or busy:
            while attempts and len(busy) < _AHEAD * max(1, slots):
                number = attempts.take()
                busy[remote.remote(work, number)] = number
            done, _ = self._ray.wait(list(busy), timeout=_LOOK)
            if monotonic() - looked > _LOOK:
                slots, looked = self._slots(), monotonic()
            for reference in done:
                number = busy.pop(reference)
                try:
                    yield self._ray.get(reference)
                except self._ray.exceptions.RayTaskError as error:
                    # Raised by the work itself, wherever that was.
                    raise (error.cause if isinstance(error.cause, Exception) else error) from None
                except self._ray.exceptions.RayError as error:
                    attempts.lost(number, type(error).__name__)

    def _slots(self) -> int:
        """How many parts the cluster can work on at a time."""
        nodes = (node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"])
        return sum(int(processors // self.threads) for processors in nodes)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What is still being worked on is given up with the connection.
        self._ray.shutdown()


def _call(work: Work, number: int) -> int:
    return work(number)


def _import_ray() -> Any:
    # Before it is imported: nothing is reported to anybody.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.exceptions  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BatchError("the engine ray needs Ray; install it with `pip install 'diptych[ray]'`") from None
    return ray
