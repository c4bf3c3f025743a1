"""`diptych index rebuild`, `backup` and `restore`: a collection mended or brought to a model, copied, and put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet
from diptych.console import Console, byte_size, format_count, format_section
from diptych.errors import StoreError
from diptych.store.location import Address

if TYPE_CHECKING:
    from diptych.scoring.scorer import Scorer
    from diptych.store.rebuild import RebuildReport


def rebuild(
    store: options.Store,
    everything: Annotated[
        bool, Option("--all", help="embed every picture again, even those of this model", envvar="DIPTYCH_ALL")
    ] = False,
    drop_missing: Annotated[bool, Option("--drop-missing", help="remove pictures whose content is lost")] = False,
    allow_removal: Annotated[
        bool,
        Option("--allow-removal", help="with --drop-missing, even where a whole folder is gone or cannot be read"),
    ] = False,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Embed pictures for another model and write the index.

    Exits with 1 if some could not be read and are still there.
    """
    from diptych.collection import rebuild as rebuilding
    from diptych_runtime.models import full_name, own_calibration

    if allow_removal and not drop_missing:
        raise BadParameter("--allow-removal is about what --drop-missing removes; name that too")
    console = Console(as_json, quiet)
    failed: list[dict[str, Any]] = []
    options.check_store(store)
    name, adopts = _choose_model(model, store)
    scorer = options.open_scorer(name, provider, threads)
    with console.progress(unit="picture", desc="embedding") as bar:
        report = rebuilding.rebuild_collection(
            store,
            scorer,
            everything=everything,
            drop=drop_missing,
            allow_removal=allow_removal,
            adopted=full_name(name) if adopts and own_calibration(name) is None else None,
            on_error=lambda record, error: failed.append({"id": record.id, "path": record.path, "reason": str(error)}),
            on_progress=bar.update,
        )
    lines = _report_lines(report, scorer, [entry["reason"] for entry in failed], drop=drop_missing)
    console.emit({**asdict(report), "failures": failed, "dropped": drop_missing}, "\n".join(lines))
    return 1 if report.failed > report.removed else 0


def _choose_model(named: str | None, store: options.Location) -> tuple[str, bool]:
    """The model to embed with, and whether commands without one open the collection with it from now on.

    That is one that is named here or was before. *photo* by itself is only for a collection without pictures: those of
    a model that is not here, or of several, are not embedded by one that nobody has named.
    """
    from diptych.collection.own_model import own_model
    from diptych.store.other_model import embedded_by

    if named:
        return named, True
    own = own_model(store)
    if own.name is None and own.revisions:
        raise BadParameter(
            f"name the model to embed them with (--model NAME): the pictures in {store} were embedded by "
            f"{embedded_by(own.revisions)}"
        )
    return own.name or "photo", own.adopted


def _report_lines(report: RebuildReport, scorer: Scorer, reasons: list[str], *, drop: bool) -> list[str]:
    """The report in words, with the reasons why pictures could not be read."""
    by, there = f"{scorer.runtime.name} ({scorer.runtime.revision})", report.pictures - report.foreign
    lines = [f"{format_count(report.embedded, 'picture')} embedded again by {by}, {there:,} in the index"]
    if report.mended:
        lines.append("the database was damaged and has been repaired")
    kept = report.failed - report.removed
    fate = f"{report.removed} removed, {kept} kept" if drop else "kept; put them back, or use --drop-missing"
    lines += format_section(f"{report.failed} could not be read ({fate}):", reasons)
    if report.spared:
        away = (f"{sign}: {format_count(count, 'picture')}" for sign, count in report.spared.items())
        lines += format_section("kept, as their disk may be away; mount it, or add --allow-removal:", away)
    if report.foreign:
        still = f"{format_count(report.foreign, 'picture')} still of another model"
        lines.append(f"{still}: put their files back or use --drop-missing, and run this again, to search the others")
    return lines


def backup(
    store: options.Store,
    target: Annotated[Path, Argument(metavar="DIR", help="a new folder")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Copy a collection while it is in use."""
    from diptych.store.sqlite import backup as archive
    from diptych.store.sqlite.database import Store as Database

    console = Console(as_json, quiet)
    if isinstance(store, Address):
        raise StoreError(f"{store} is backed up by Milvus's own tool; `diptych index export` writes the records")
    with Database.open(store, read_only=True) as database, console.progress(unit="page", desc="copying") as bar:
        size = archive.back_up_collection(database, target, _make_teller(bar))
    text = f"{target}: {byte_size(size)}; open it like any collection"
    console.emit({"target": str(target), "bytes": size}, text)
    return 0


def restore(
    copy: Annotated[Path, Argument(metavar="COPY", help="the folder that `diptych index backup` made")],
    store: options.StoreFolder,
    replace: Annotated[
        bool, Option("--replace", help="even if pictures are lost that the backup does not have")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Give a collection the state of a backup.

    No other process may write to the collection meanwhile.
    """
    from diptych.store.sqlite import backup as archive
    from diptych.store.sqlite.backend import SqliteBackend

    console = Console(as_json, quiet)
    with SqliteBackend.open(copy, read_only=True) as old, console.progress(unit="page", desc="copying") as bar:
        pictures = archive.restore_collection(old, store, replace=replace, progress=_make_teller(bar))
    console.emit(
        {"store": str(store), "pictures": pictures}, f"{store}: {format_count(pictures, 'picture')}, as in {copy}"
    )
    return 0


def _make_teller(bar: Any) -> Callable[[int, int], None]:
    """Make the function that tells a progress bar how many of how many are done."""

    def tell_progress(done: int, total: int) -> None:
        bar.set_total(total)
        bar.update(done - bar.n)

    return tell_progress
