"""`diptych bench` and the commands below it: each measures, prints a table, and leaves nothing behind."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from diptych.bench import collection as collections
from diptych.bench import dedupe as duplicates
from diptych.bench import load as loads
from diptych.bench import model as models
from diptych.bench import pairs as tables
from diptych.bench import store as stores
from diptych.cli.resources import open_scorer
from diptych.console import emit, progress, remark
from diptych.errors import BenchError
from diptych.store.open import open_searchable
from diptych_runtime.models import find_artifact
from diptych_runtime.runtime import Runtime


def model(args: argparse.Namespace) -> int:
    """Run `diptych bench`."""
    scorer, peers = open_scorer(args), args.peer or list(models.PEERS)
    with progress((), args, total=args.rounds, unit="round") as bar:
        result = models.measure(scorer, rounds=args.rounds, peers=peers, tick=bar.update)
    if args.memory:
        few, many = models.REQUESTS
        remark(args, f"scoring {few:,} and {many:,} pairs in processes of their own ...")
        result["memory"] = models.peak_memory(args.model)
    emit(args, result, models.text(result))
    return 0


def load(args: argparse.Namespace) -> int:
    """Run `diptych bench load`."""
    scorer = open_scorer(args)
    total = 2 * len(args.clients) * (args.rounds + 1)
    with progress((), args, total=total, unit="round") as bar:
        result = loads.measure(scorer, args.clients, args.seconds, args.model, bar.update, rounds=args.rounds)
    emit(args, result, loads.text(result))
    return 0


def collection(args: argparse.Namespace) -> int:
    """Run `diptych bench collection`."""
    find_artifact(args.model)  # or it would only be missed once all is drawn
    with _folder(args) as folder:
        result = collections.measure(folder, args.count, args.model, partial(remark, args), args)
    emit(args, result, collections.text(result))
    return 0


def store(args: argparse.Namespace) -> int:
    """Run `diptych bench store`."""
    runtime = Runtime.open(args.model)
    with open_searchable(args.store, runtime, create=True, read_only=False) as backend:
        if backend.count():
            raise BenchError(f"{backend.name} holds {backend.count():,} pictures; name a new collection for the bench")
        with progress((), args, total=args.count, unit="picture", desc="adding") as bar:
            result = stores.measure(backend, runtime, args.count, bar.update)
    emit(args, result, stores.text(result))
    return 0


def dedupe(args: argparse.Namespace) -> int:
    """Run `diptych bench dedupe`."""
    with _folder(args) as folder:
        result = duplicates.measure(folder, args.photos, args.count, args.model, partial(remark, args))
    emit(args, result, duplicates.text(result))
    return 0


def pairs(args: argparse.Namespace) -> int:
    """Run `diptych bench score`: 0 if every run wrote the same bytes."""
    with _folder(args) as folder:
        result = tables.measure(
            folder,
            pairs=args.pairs,
            pictures=args.pictures,
            workers=args.workers,
            nodes=args.nodes,
            model=args.model,
            say=partial(remark, args),
            args=args,
        )
    emit(args, result, tables.text(result))
    return 0 if result["same_bytes"] else 1


@contextmanager
def _folder(args: argparse.Namespace) -> Iterator[Path]:
    """A folder for the time of a bench, in the one that was named."""
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="diptych-bench-") as name:
        yield Path(name)
