"""The resources that a command's options ask for: a scorer, the bytes of pictures, workers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from diptych.batch.workers.executor import Executor, Serial
from diptych.batch.workers.pool import Pool
from diptych.batch.workers.ray import Cluster
from diptych.batch.workers.shared_folder import WorkerPool
from diptych.batch.workers.tasks import WorkerConfig
from diptych.console import read_bytes, remark
from diptych.pictures.sources import is_url, make_fetcher
from diptych.scoring.decode_pool import decoder
from diptych.scoring.scorer import Scorer
from diptych_runtime.models import bundled_models
from diptych_runtime.runtime import Runtime
from diptych_runtime.session import thread_count


def open_scorer(args: argparse.Namespace) -> Scorer:
    """The scorer that `--model`, `--provider`, `--threads` and `--question` name, fit for strangers' with `--urls`."""
    runtime = Runtime.open(args.model, provider=args.provider, threads=args.threads)
    runtime = runtime.asking(getattr(args, "question", None))
    return Scorer(runtime, decoder=decoder(args.urls, runtime.threads) if "urls" in args else None)


def read_pictures(args: argparse.Namespace, names: Sequence[str]) -> list[str | bytes]:
    """Pictures as the command line names them: a path as it is, or the bytes of what else it names.

    Raises RemoteError for a web address that gives none.
    """
    fetch = make_fetcher(args.urls)
    return [read_bytes("-") if name == "-" else fetch(name) if is_url(name) else name for name in names]


@contextmanager
def open_workers(args: argparse.Namespace) -> Iterator[WorkerPool | None]:
    """The crew that `--engine` asks for; None where this process does everything. Raises BatchError."""
    if args.engine == "local":
        yield None
        return
    engine, means = engine_of(args)
    with engine as working:
        yield WorkerPool(working, means, lambda text: remark(args, text))


def engine_of(args: argparse.Namespace) -> tuple[AbstractContextManager[Executor], WorkerConfig]:
    """The executor and the configuration by `--engine`, `--address`, `--workers` and the options of the model."""
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
    return engine, WorkerConfig(model, args.provider, threads, getattr(args, "urls", False))


def check_engine(args: argparse.Namespace) -> None:
    """End with a usage error where `--address` or `--workers` and `--engine` do not go together."""
    if args.address and args.engine != "ray":
        args.usage_error("--address names a Ray cluster; it needs --engine ray")
    if getattr(args, "workers", None) and args.engine == "ray":
        args.usage_error("--workers are processes here; a Ray cluster says itself what it has")
