"""`diptych index sync`: once, or on and on."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from diptych.cli.index import to_add_to
from diptych.cli.resources import open_scorer
from diptych.collection.collection import Collection
from diptych.collection.sync.follow import follow
from diptych.collection.sync.run import Outcome, Run, checked
from diptych.collection.sync.seen_files import SeenFiles
from diptych.collection.sync.summary import data, line, text
from diptych.console import emit, one_line, progress, remark, shortened, visible
from diptych.errors import StoreInUseError
from diptych.signals import end_orderly


def sync(args: argparse.Namespace) -> int:
    """Run `diptych index sync`: 0 if all went well, 1 if a file or folder could not be read, 130 after Ctrl-C."""
    if args.every and args.dry_run:
        args.usage_error("--dry-run looks once, and --every follows; name one of them")
    checked(args.folders)  # a wrong name is said before the model is loaded, and by --every at once
    with _opened(args) as (collection, ledger):
        if args.every:
            return _follow(args, collection, ledger)
        run = _run(args, collection, ledger)
        interrupted = False
        with progress((), args, unit="picture", desc="reading") as bar:
            try:
                _go(run, bar)
            except KeyboardInterrupt:
                interrupted = True
        outcome, total = run.outcome, len(collection)
    emit(
        args,
        {**data(outcome, total), "interrupted": interrupted, "dry_run": args.dry_run},
        text(outcome, total, would=args.dry_run),
    )
    if interrupted:
        remark(args, "interrupted; what was added is kept, and the same command takes up the rest")
        return 130
    return 1 if outcome.refused or outcome.closed or outcome.objection else 0


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[tuple[Collection, SeenFiles]]:
    scorer = open_scorer(args)
    try:
        with (
            to_add_to(args, scorer) as collection,
            SeenFiles(collection.directory, scorer.limits, read_only=args.dry_run) as ledger,
        ):
            yield collection, ledger
    except StoreInUseError as error:
        raise StoreInUseError(f"{error}. A service follows folders itself: diptych serve --sync FOLDER") from None


def _run(args: argparse.Namespace, collection: Collection, ledger: SeenFiles) -> Run:
    return Run(
        collection,
        ledger,
        args.folders,
        checksum=args.checksum,
        allow_removal=args.allow_removal,
        dry_run=args.dry_run,
    )


def _go(run: Run, bar: Any) -> Outcome:
    def begin(files: int) -> None:
        bar.total = files
        bar.refresh()

    return run.go(total=begin, tick=bar.update)


def _follow(args: argparse.Namespace, collection: Collection, ledger: SeenFiles) -> int:
    """Follow until Ctrl-C, which is 130, or a signal like SIGTERM (`end_orderly`), which is 0."""
    end_orderly()

    def once() -> Outcome:
        with progress((), args, unit="picture", desc="reading") as bar:
            bar.leave = False
            return _go(_run(args, collection, ledger), bar)

    def tell(outcome: Outcome, reasons: list[str]) -> None:
        total = len(collection)
        said = json.dumps(data(outcome, total), ensure_ascii=False) if args.json else line(outcome, total)
        print(visible(said).encode("utf-8", "backslashreplace").decode(), flush=True)
        for reason in shortened(reasons):
            remark(args, reason)

    def fail(reason: str) -> None:
        print(f"diptych: {one_line(reason)}", file=sys.stderr, flush=True)

    remark(args, f"following {', '.join(map(str, args.folders))} every {args.every:g} s; Ctrl-C ends it")
    follow(once, args.every, tell=tell, fail=fail, over=Event())
    return 0
