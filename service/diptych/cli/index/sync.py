"""`diptych index sync`: once, or on and on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet
from diptych.console import Console, as_json, escape_lines, one_line, shorten_list
from diptych.errors import StoreInUseError
from diptych.signals import end_orderly

if TYPE_CHECKING:
    from diptych.collection.collection import Collection
    from diptych.collection.sync.run import Outcome, Run
    from diptych.collection.sync.seen_files import SeenFiles
    from diptych.scoring.scorer import Scorer


def sync(
    folders: Annotated[list[Path], Argument(metavar="FOLDER", help="a folder of pictures")],
    store: options.StoreFolder,
    every: Annotated[
        float | None,
        Option(
            parser=options.seconds,
            metavar="SECONDS",
            help="time between two runs; repeats until Ctrl-C",
            envvar="DIPTYCH_EVERY",
        ),
    ] = None,
    checksum: options.Checksum = False,
    allow_removal: Annotated[
        bool,
        Option("--allow-removal", help="allow the removal of more than half of the pictures, or of a whole folder"),
    ] = False,
    keep_metadata: options.KeepMetadata = 90,
    exclude: options.Exclude = (),
    include_hidden: options.IncludeHidden = False,
    strict: options.Strict = False,
    dry_run: options.DryRun = False,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Keep a collection in step with folders.

    Files that are not pictures are counted, with the reasons. Exits with 1 if a file or folder could not be looked at,
    and with --strict if any file was refused.
    """
    from diptych.collection.sync.run import Run, check_folders
    from diptych.collection.sync.summary import summary_data, summary_text
    from diptych_runtime.folders import Exclusion

    console = Console(as_json, quiet)
    options.check_one_of({"--dry-run, which looks once,": dry_run, "--every": every})
    check_folders(folders)  # a wrong name is said before the model is loaded, and by --every at once
    scorer = options.open_scorer(model := options.model_of(model, store), provider, threads)
    with _open_collection(store, scorer, model, dry_run=dry_run) as (collection, ledger):

        def new_run() -> Run:
            how = {"checksum": checksum, "allow_removal": allow_removal, "dry_run": dry_run}
            exclusion = Exclusion(tuple(exclude), include_hidden)
            return Run(collection, ledger, folders, exclusion, keep_days=keep_metadata, **how)

        if every:
            return _follow_folders(console, collection, new_run, folders, every)
        run = new_run()
        interrupted = False
        with console.progress(unit="picture", desc="reading") as bar:
            try:
                run.go(total=bar.set_total, tick=bar.update)
            except KeyboardInterrupt:
                interrupted = True
        outcome, total = run.outcome, len(collection)
    console.emit(
        {**summary_data(outcome, total), "interrupted": interrupted, "dry_run": dry_run},
        summary_text(outcome, total, would=dry_run),
    )
    if interrupted:
        console.remark("interrupted; what was added is kept, and the same command takes up the rest")
        return 130
    return 1 if (strict and outcome.refused) or outcome.closed or outcome.objection else 0


@contextmanager
def _open_collection(
    store: Path, scorer: Scorer, model: str, *, dry_run: bool
) -> Iterator[tuple[Collection, SeenFiles]]:
    from diptych.collection.sync.seen_files import SeenFiles

    try:
        with (
            options.to_add_to(store, scorer, model, dry_run=dry_run) as collection,
            SeenFiles(collection.directory, scorer.limits, read_only=dry_run) as ledger,
        ):
            yield collection, ledger
    except StoreInUseError as error:
        raise StoreInUseError(f"{error}. A service follows folders itself: diptych serve --sync FOLDER") from None


def _follow_folders(
    console: Console, collection: Collection, new_run: Callable[[], Run], folders: Sequence[Path], every: float
) -> int:
    """Follow the folders until Ctrl-C, which is 130, or a signal like SIGTERM (`end_orderly`), which is 0."""
    from diptych.collection.sync.follow import follow_changes
    from diptych.collection.sync.summary import summary_data, summary_line

    end_orderly()

    def run_once() -> Outcome:
        with console.progress(unit="picture", desc="reading") as bar:
            bar.leave = False
            return new_run().go(total=bar.set_total, tick=bar.update)

    def tell_outcome(outcome: Outcome, reasons: list[str]) -> None:
        total = len(collection)
        # One document a line.
        said = (
            as_json(summary_data(outcome, total), indent=None)
            if console.json
            else escape_lines(summary_line(outcome, total))
        )
        print(said, flush=True)
        for reason in shorten_list(reasons):
            console.remark(reason)

    def tell_failure(reason: str) -> None:
        print(f"diptych: {one_line(reason)}", file=sys.stderr, flush=True)

    console.remark(f"following {', '.join(map(str, folders))} every {every:g} s; Ctrl-C ends it")
    follow_changes(run_once, every, tell=tell_outcome, fail=tell_failure, over=Event())
    return 0
