"""`diptych index`: filling a collection and looking after it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from diptych.cli.options import (
    Checksum,
    ClusterAddress,
    DryRun,
    Engine,
    Exclude,
    IncludeHidden,
    Location,
    Provider,
    Store,
    StoredModel,
    Strict,
    Threads,
    check_engine,
    model_of,
    open_scorer,
    open_workers,
    to_add_to,
)
from diptych.command_tree import Json, Quiet
from diptych.console import Console, counted, read_bytes, shortened
from diptych.errors import UnknownPictureError
from diptych.store.location import Address
from diptych_runtime.errors import ArgumentError, PictureError
from diptych_runtime.paths import given_path, shell_word

if TYPE_CHECKING:
    from diptych.collection.ingest import Added
    from diptych.pictures.walk import Omissions
    from diptych.store.backend import Backend
    from diptych.store.reports import FilesReport
    from diptych_runtime.folders import Exclusion

_PAGE = 1000
_ID = re.compile(r"[0-9a-f]{32}")
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
    store: Store,
    keep_originals: _KeepOriginals = False,
    metadata: _Metadata = None,
    exclude: Exclude = (),
    include_hidden: IncludeHidden = False,
    strict: Strict = False,
    dry_run: DryRun = False,
    engine: Engine = "local",
    address: ClusterAddress = None,
    model: StoredModel = None,
    provider: Provider = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Add picture files and folders.

    Files that cannot be read are counted, with the reasons. Exits with 1 if a path does not exist, a folder
    cannot be listed or nothing could be read, and with --strict if any file was refused or copies of a picture have
    different metadata.
    """
    from diptych.batch.ingest import add_with_workers
    from diptych.collection.metadata_table import read_metadata
    from diptych.pictures.file_info import damage_text
    from diptych.pictures.walk import Omissions
    from diptych_runtime.folders import Exclusion

    check_engine(engine, address)
    if engine == "ray":
        _check_cluster(store, dry_run=dry_run)
    console = Console(as_json, quiet)
    if len(missing := _missing(paths)) == len(paths):
        raise PictureError("; ".join(f"{path} does not exist" for path in missing))
    by_path = {} if metadata is None else read_metadata(metadata)
    omissions = Omissions()
    tally, interrupted = _Tally(dry_run, by_path), False
    files = _pictures(paths, tally, Exclusion(tuple(exclude), include_hidden), omissions, console)
    strays = _strays(by_path, files, metadata)
    scorer = open_scorer(model := model_of(model, store), provider, threads)

    with (
        open_workers(console, engine, address, model, provider, threads) as crew,
        to_add_to(store, scorer, model, dry_run=dry_run) as collection,
    ):
        _remark_strangers(console, store)
        with console.progress(total=len(files), unit="picture", desc="adding") as bar:

            def refuse(path: Path, error: PictureError) -> None:
                tally.refuse(path, error)
                bar.update()

            adding = partial(add_with_workers, by_path=by_path, keep_originals=keep_originals, dry_run=dry_run)
            try:
                for added in adding(collection, files, crew, on_error=refuse):
                    tally.note(added)
                    bar.update()
                if Path("-") in paths:
                    # There is no file to come back to, so the bytes are kept.
                    tally.note(*collection.add(read_bytes("-"), keep_originals=True, dry_run=dry_run))
            except PictureError as error:
                tally.refuse(Path("-"), error)
            except KeyboardInterrupt:
                interrupted = True
        total = len(collection)
    lines = _added_lines(tally.counts, tally.refused, "would be " if dry_run else "")
    lines += _stray_lines(strays, metadata) + _conflict_lines(tally.conflicts, metadata)
    data = tally.data() | omissions.data() | {"interrupted": interrupted, "total": total}
    if metadata:
        data |= {"metadata_without_picture": strays, "metadata_conflicts": tally.conflicts}
    console.emit(data, "\n".join([*lines, *omissions.lines(), f"{counted(total, 'picture')} in {store}"]))
    if tally.damaged:
        console.remark(damage_text(tally.damaged))
    if interrupted:
        console.remark("interrupted; what was added is kept, and the same command takes up the rest")
        return 130
    return 1 if tally.failed or _failed(tally, strict=strict, missing=bool(_missing(paths))) else 0


def _pictures(
    paths: list[Path], tally: _Tally, exclusion: Exclusion, omissions: Omissions, console: Console
) -> list[Path]:
    from diptych.pictures.walk import Omissions, no_picture, pictures_in

    files = list(pictures_in((path for path in paths if str(path) != "-"), tally.unread, exclusion, omissions))
    if not files and not tally.refused and Path("-") not in paths:
        console.remark(no_picture(paths, Omissions()))  # what was left out is said with the result
    return files


def _failed(tally: _Tally, *, strict: bool, missing: bool) -> bool:
    if strict and tally.conflicts:
        return True
    return bool(tally.refused) and (strict or missing or not any(tally.counts.values()))


def _strays(by_path: Iterable[str], files: Iterable[Path], table: Path | None) -> list[str]:
    """The paths of a table of metadata that are not among the files. Raises ArgumentError where none is."""
    from diptych.pictures.walk import full_path

    named, present = [*by_path], {full_path(file) for file in files}
    strays = [path for path in named if path not in present]
    if named and len(strays) == len(named):
        raise ArgumentError(
            f"{table} names none of the pictures, but {strays[0]} for one; relative names in it begin at its folder"
        )
    return strays


def _stray_lines(strays: list[str], table: Path | None) -> list[str]:
    if not strays:
        return []
    head = f"{counted(len(strays), 'line')} of {table} without a picture among these:"
    return [head, *shortened([f"  {path}" for path in strays])]


def _conflict_lines(conflicts: list[dict[str, Any]], table: Path | None) -> list[str]:
    if not conflicts:
        return []
    head = f"{counted(len(conflicts), 'picture')} with copies to which {table} gives different metadata:"
    return [head, *shortened([f"  {one['counts']} counts, not {', '.join(one['instead_of'])}" for one in conflicts])]


def _missing(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if str(path) != "-" and not os.path.lexists(path)]


@dataclass
class _Tally:
    """The files that `index add` met: how many were added and known already, which were refused and why, with `dry_run`
    what would be new, and by the metadata `by_path` which copies of a picture are `described` differently.
    """

    dry_run: bool
    by_path: Mapping[str, dict[str, Any]]
    counts: dict[str, int] = field(default_factory=lambda: {"added": 0, "already": 0})
    refused: list[dict[str, str]] = field(default_factory=list)
    foreseen: dict[str, bool] = field(default_factory=dict)
    failed: bool = False
    described: dict[str, list[str]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    def note(self, added: Added) -> None:
        if added.is_damaged:
            self.damaged.append(added.path or "-")
        if added.path is not None and added.path in self.by_path:
            self.described.setdefault(added.id, []).append(added.path)
        new = added.created and added.id not in self.foreseen
        self.counts["added" if new else "already"] += 1
        if self.dry_run:
            self.foreseen.setdefault(added.id, new)

    @property
    def conflicts(self) -> list[dict[str, Any]]:
        """The pictures to whose copies the table gives different metadata: that of the last one added counts."""
        found = []
        for id, paths in self.described.items():
            *others, last = ((path, json.dumps(self.by_path[path], sort_keys=True)) for path in paths)
            if instead_of := [path for path, metadata in others if metadata != last[1]]:
                found.append({"id": id, "counts": last[0], "instead_of": [*dict.fromkeys(instead_of)]})
        return found

    def data(self) -> dict[str, Any]:
        """The counts, and what was refused, as JSON values."""
        foreseen = [{"id": id, "new": new} for id, new in self.foreseen.items()]
        return {**self.counts, "refused": self.refused, **({"dry_run": foreseen} if self.dry_run else {})}

    def refuse(self, path: Path, error: PictureError) -> None:
        self.refused.append({"path": str(path), "reason": str(error)})

    def unread(self, path: str, reason: str) -> None:
        from diptych.pictures.walk import is_folder

        self.failed = self.failed or is_folder(path)
        self.refused.append({"path": path, "reason": reason})


def _remark_strangers(console: Console, store: Location) -> None:
    from diptych.collection.root import listed, strangers

    if isinstance(store, Path) and (others := strangers(store)):
        console.remark(f"{store} holds what is not Diptych's: {listed(others)}; a store is best alone in its folder")


def _check_cluster(store: Location, *, dry_run: bool) -> None:
    if dry_run:
        raise BadParameter("--dry-run looks at the pictures here; leave --engine ray out")
    if isinstance(store, Address):
        raise BadParameter(
            "on Milvus every machine may write: run the command on each, with its share of the pictures and without "
            "--engine ray"
        )


def remove(
    paths: Annotated[
        list[str], Argument(parser=given_path, metavar="PATH", help="a file, a folder, or the id of a picture")
    ],
    store: Store,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Forget pictures; their files are left alone.

    Exits with 1 if something that is named is not there.
    """
    from diptych.store.open import open_store

    with open_store(store) as backend:
        # All are looked up before any is removed: a folder and a file in it may be named together.
        named = {name: _named(backend, name) for name in paths}
        removed = sum(backend.remove([id for ids in named.values() for id in ids]))
        unknown = [name for name, ids in named.items() if not ids]
        total = backend.count()
    Console(as_json, quiet).emit(
        {"removed": removed, "unknown": unknown, "total": total},
        f"{removed:,} removed, {counted(total, 'picture')} left",
    )
    if unknown and not as_json:
        raise UnknownPictureError(f"the collection {store} has nothing under {', '.join(unknown)}")
    return 1 if unknown else 0


def verify(
    store: Store,
    checksum: Checksum = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Check every picture, the files they were made of, and the index.

    Files are compared by size and time, and by their digest where these are others. Exits with 1 if something is
    damaged, or if a file holds something else by now.
    """
    from diptych.store.open import open_store
    from diptych.store.originals import compare_files

    with open_store(store, read_only=True) as backend:
        verdict = backend.verify()
        records = chain.from_iterable(backend.pages(_PAGE))
        files = compare_files(records, checksum=checksum) if verdict.healthy else None
    stale = bool(files and files.changed)
    if verdict.problems:
        lines = [f"{counted(len(verdict.problems), 'problem')} in {counted(verdict.pictures, 'picture')}"]
    else:
        lines = [f"{counted(verdict.pictures, 'picture')} checked" + ("" if stale else ", no problem found")]
    lines += shortened([f"  {text}" for text in verdict.problems])
    lines += [f"  note: {text}" for text in verdict.remarks]
    if verdict.problems:
        lines.append(f"`diptych index rebuild --store {shell_word(store)}` mends what the files still allow")
    if verdict.recall is not None:
        lines.append(f"  the index finds {verdict.recall:.1%} of the exact candidates")
    lines += _file_lines(files)
    found = {"healthy": verdict.healthy, **asdict(verdict), "files": None if files is None else asdict(files)}
    Console(as_json, quiet).emit(found, "\n".join(lines))
    return 0 if verdict.healthy and not stale else 1


def _file_lines(files: FilesReport | None) -> list[str]:
    """The comparison with the files in words."""
    if files is None:
        return ["  note: files are compared once the damage is mended"]
    lines = []
    if files.changed:
        since = "it was" if len(files.changed) == 1 else "they were"
        lines += [f"{counted(len(files.changed), 'file')} changed since {since} added:"]
        lines += shortened([f"  {path}" for path in files.changed])
        lines.append(
            "searches answer with the pictures of before: `diptych index sync FOLDER` brings them up to date, or "
            "`diptych index remove` and `add`"
        )
    if files.missing:
        lines += [f"{counted(len(files.missing), 'file')} missing or unreadable:"]
        lines += shortened([f"  {path}" for path in files.missing])
        lines.append("put them back, or let `diptych index sync FOLDER` or `remove` take their pictures out")
    return lines


def _named(store: Backend, name: str) -> list[str]:
    from diptych.pictures.walk import can_be_kept, full_path
    from diptych_runtime.paths import other_forms

    if not can_be_kept(name):
        return []
    if _ID.fullmatch(name) and store.known([name]):
        return [name]
    path = full_path(name)
    return next((list(ids) for form in (path, *other_forms(path)) if (ids := store.under(form))), [])


def _added_lines(counts: dict[str, int], refused: list[dict[str, str]], would: str) -> list[str]:
    lines = [f"{counts['added']:,} {would}added, {counts['already']:,} already there, {len(refused):,} {would}refused"]
    return lines + shortened([f"  {entry['reason']}" for entry in refused])
