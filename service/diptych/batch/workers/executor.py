"""Who does the parts of a job, and with what: this process, several of them, or the nodes of a Ray cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from diptych.batch.workers.pool import Pool
from diptych.batch.workers.ray import Cluster
from diptych.batch.workers.retries import Attempts
from diptych.batch.workers.tasks import Means, Work, let_go
from diptych_runtime.manifest import bundled_models
from diptych_runtime.threads import thread_count


class Engine(Protocol):
    """Who does the parts: `Serial`, `Pool` or `Cluster`."""

    def run(self, work: Work, attempts: Attempts) -> Iterator[int]:
        """The number of each part as soon as it is done, in any order. Raises what the work raises, and BatchError."""
        ...


class Serial:
    """Does the parts in this process, one after the other, each with all threads."""

    def run(self, work: Work, attempts: Attempts) -> Iterator[int]:
        """The number of each part."""
        while attempts:
            number = attempts.take()
            work(number)
            yield number

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        let_go()


def chosen(args: argparse.Namespace) -> tuple[AbstractContextManager[Engine], Means]:
    """What `--engine`, `--address`, `--workers` and the options of the model ask for."""
    threads = args.threads
    if args.engine == "ray":
        threads = args.threads or 1
        engine = Cluster(args.address, threads=threads)
    elif workers := getattr(args, "workers", None):
        threads = max(1, (args.threads or thread_count()) // workers)
        engine = Pool(workers)
    else:
        engine = Serial()
    # A worker need not have this one's working directory.
    model = args.model if args.model in bundled_models() else str(Path(args.model).absolute())
    return engine, Means(model, args.provider, threads, getattr(args, "urls", False))


def check_choice(args: argparse.Namespace) -> None:
    """End with a usage error where `--address` or `--workers` and `--engine` do not go together."""
    if args.address and args.engine != "ray":
        args.usage_error("--address names a Ray cluster; it needs --engine ray")
    if getattr(args, "workers", None) and args.engine == "ray":
        args.usage_error("--workers are processes here; a Ray cluster says itself what it has")
