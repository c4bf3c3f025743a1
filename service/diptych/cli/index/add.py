"""`diptych index add`: picture files and folders taken into a collection."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from diptych.cli import options
from diptych.command_tree import Json, Quiet
from diptych.console import Console, format_count, format_section, read_bytes
from diptych.store.location import Address
from diptych_runtime.errors import ArgumentError, PictureError

if TYPE_CHECKING:
    from diptych.collection.ingest import Added
_KeepOriginals = Annotated[
    bool,
    Option("--keep-originals", help="keep the files themselves in the collection", envvar="DIPTYCH_KEEP_ORIGINALS"),
]
_Metadata = Annotated[
    Path | None,
    Option(
        metavar="TABLE",
        help="metadata of the pictures, .csv or .jsonl: a line for each, its file in the column path",
        envvar="DIPTYCH_METADATA",
    ),
]


def add(
    paths: Annotated[list[Path], Argument(metavar="PATH", help="a picture, or a folder to search through")],
    store: options.Store,
    keep_originals: _KeepOriginals = False,
    metadata: _Metadata = None,
    exclude: options.Exclude = (),
    include_hidden: options.IncludeHidden = False,
    strict: options.Strict = False,
    dry_run: options.DryRun = False,
    engine: options.Engine = "local",
    address: options.ClusterAddress = None,
    model: options.StoredModel = None,
    provider: options.Provider = "auto",
    threads: options.Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Add picture files and folders.

    Files that cannot be read are counted, with the reasons. Exits with 1 if a path does not exist, a folder
    cannot be listed or nothing could be read, and with --strict if any file was refused.
    """
    from diptych.batch.ingest import add_with_workers
    from diptych.collection.metadata_table import read_metadata
    from diptych.collection.root import find_strangers, list_names
    from diptych.pictures.file_info import damage_text
    from diptych.pictures.walk import Omissions, no_picture, pictures_in
    from diptych_runtime.folders import Exclusion

    options.check_engine(engine, address)
    if engine == "ray" and (dry_run or isinstance(store, Address)):
        raise BadParameter("--engine ray fills a folder; for Milvus, or with --dry-run, leave it out")
    console = Console(as_json, quiet)
    named = [path for path in paths if str(path) != "-"]
    missing = [path for path in named if not os.path.lexists(path)]
    if len(missing) == len(paths):
        raise PictureError("; ".join(f"{path} does not exist" for path in missing))
    by_path = {} if metadata is None else read_metadata(metadata)
    omissions, tally = Omissions(), _Tally(dry_run)
    files = list(pictures_in(named, tally.add_refused, Exclusion(tuple(exclude), include_hidden), omissions))
    if not files and not tally.refused and paths == named:
        console.remark(no_picture(paths, Omissions()))  # what was left out is said with the result
    strays = _find_strays(by_path, files, metadata)
    scorer = options.open_scorer(model := options.model_of(model, store), provider, threads)
    interrupted = False
    with (
        options.open_workers(console, engine, address, model, provider, threads) as workers,
        options.to_add_to(store, scorer, model, dry_run=dry_run) as collection,
    ):
        if isinstance(store, Path) and (others := find_strangers(store)):
            console.remark(f"{store} holds what is not Diptych's: {list_names(others)}; a store is best alone")
        with console.progress(total=len(files), unit="picture", desc="adding") as bar:

            def refuse_picture(path: Path, error: PictureError) -> None:
                tally.add_refused(str(path), str(error))
                bar.update()

            how: dict[str, Any] = {"by_path": by_path, "keep_originals": keep_originals, "dry_run": dry_run}
            try:
                for added in add_with_workers(collection, files, workers, on_error=refuse_picture, **how):
                    tally.count_added(added)
                    bar.update()
                if paths != named:  # there is no file to come back to, so the bytes are kept
                    tally.count_added(*collection.add(read_bytes("-"), keep_originals=True, dry_run=dry_run))
            except PictureError as error:
                tally.add_refused("-", str(error))
            except KeyboardInterrupt:
                interrupted = True
        total = len(collection)
    data = tally.data() | omissions.data() | {"interrupted": interrupted, "total": total}
    data |= {"metadata_without_picture": strays} if metadata else {}
    without = f"{format_count(len(strays), 'line')} of {metadata} without a picture among these:"
    lines = [*tally.lines(), *format_section(without, strays), *omissions.lines()]
    console.emit(data, "\n".join([*lines, f"{format_count(total, 'picture')} in {store}"]))
    if tally.damaged:
        console.remark(damage_text(tally.damaged))
    if interrupted:
        console.remark("interrupted; what was added is kept, and the same command takes up the rest")
        return 130
    return 1 if tally.is_failure(strict=strict, missing=bool(missing)) else 0


def _find_strays(by_path: Iterable[str], files: Iterable[Path], table: Path | None) -> list[str]:
    """Find paths of a metadata table that are not among the files. Raises ArgumentError where none is."""
    from diptych.pictures.walk import full_path

    named, present = [*by_path], {full_path(file) for file in files}
    strays = [path for path in named if path not in present]
    if named and len(strays) == len(named):
        raise ArgumentError(
            f"{table} names none of the pictures, but {strays[0]} for one; relative names in it begin at its folder"
        )
    return strays


@dataclass
class _Tally:
    """The files that `index add` met, and what became of each.

    `foreseen` has what would be new in a dry run.
    """

    dry_run: bool
    counts: dict[str, int] = field(default_factory=lambda: {"added": 0, "already": 0})
    refused: list[dict[str, str]] = field(default_factory=list)
    foreseen: dict[str, bool] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def count_added(self, added: Added) -> None:
        if added.is_damaged:
            self.damaged.append(added.path or "-")
        new = added.created and added.id not in self.foreseen
        self.counts["added" if new else "already"] += 1
        if self.dry_run:
            self.foreseen.setdefault(added.id, new)

    def add_refused(self, path: str, reason: str) -> None:
        self.refused.append({"path": path, "reason": reason})

    def data(self) -> dict[str, Any]:
        """The counts, and what was refused, as JSON values."""
        foreseen = [{"id": id, "new": new} for id, new in self.foreseen.items()]
        return {**self.counts, "refused": self.refused, **({"dry_run": foreseen} if self.dry_run else {})}

    def lines(self) -> list[str]:
        """The counts in words, and the reasons of what was refused."""
        would, refused = "would be " if self.dry_run else "", len(self.refused)
        head = f"{self.counts['added']:,} {would}added, {self.counts['already']:,} already there, {refused:,} {would}"
        return format_section(f"{head}refused", [entry["reason"] for entry in self.refused]) or [f"{head}refused"]

    def is_failure(self, *, strict: bool, missing: bool) -> bool:
        """True where pictures may be missing without a word of each, nothing was read, or, if `strict`, one was not."""
        from diptych.pictures.walk import is_folder

        closed = any(is_folder(entry["path"]) for entry in self.refused)
        return bool(self.refused) and (closed or strict or missing or not any(self.counts.values()))
