"""`diptych index`: filling a collection and looking after it."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from diptych.batch.ingest import add_with_workers
from diptych.cli.outputs import check_output
from diptych.cli.resources import check_engine, open_scorer, open_workers
from diptych.collection.collection import Collection
from diptych.collection.ingest import Added
from diptych.collection.rebuild import rebuild
from diptych.collection.root import listed, strangers
from diptych.console import emit, progress, read_bytes, remark, shortened
from diptych.errors import StoreError, UnknownPictureError
from diptych.pictures.walk import can_be_kept, full_path, pictures_in
from diptych.scoring.scorer import Scorer
from diptych.store.backend import Backend
from diptych.store.location import Address, Location
from diptych.store.open import open_store
from diptych.store.records import Record
from diptych.store.sqlite import backup as archive
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.atomic import replacing
from diptych_runtime.errors import PictureError

_ID = re.compile(r"[0-9a-f]{32}")


def add(args: argparse.Namespace) -> int:
    """Run `diptych index add`: 0 if every file is in the collection now, 1 if some were refused."""
    check_engine(args)
    if args.engine == "ray" and args.dry_run:
        args.usage_error("--dry-run looks at the pictures here; leave --engine ray out")
    if args.engine == "ray" and isinstance(args.store, Address):
        args.usage_error(
            "on Milvus every machine may write: run the command on each, with its share of the pictures and without "
            "--engine ray"
        )
    scorer = open_scorer(args)
    counts = {"added": 0, "already": 0}
    refused: list[dict[str, str]] = []
    interrupted = False
    foreseen: dict[str, bool] = {}

    def note(added: Added) -> None:
        new = added.created and added.id not in foreseen
        counts["added" if new else "already"] += 1
        if args.dry_run:
            foreseen.setdefault(added.id, new)

    def refuse(path: Path, error: PictureError) -> None:
        refused.append({"path": str(path), "reason": str(error)})
        bar.update()

    def unread(path: str, reason: str) -> None:
        refused.append({"path": path, "reason": reason})

    with open_workers(args) as crew, to_add_to(args, scorer) as collection:
        files = list(pictures_in((path for path in args.paths if str(path) != "-"), unread))
        if isinstance(args.store, Path) and (others := strangers(args.store)):
            remark(
                args, f"{args.store} holds what is not Diptych's: {listed(others)}; a store is best alone in its folder"
            )
        with progress((), args, total=len(files), unit="picture", desc="adding") as bar:
            try:
                for added in add_with_workers(
                    collection, files, crew, on_error=refuse, keep_bytes=args.keep_bytes, dry_run=args.dry_run
                ):
                    note(added)
                    bar.update()
                if Path("-") in args.paths:
                    # There is no file to come back to, so the bytes are kept.
                    note(collection.add(read_bytes("-"), path=None, keep_bytes=True, dry_run=args.dry_run))
            except PictureError as error:
                refuse(Path("-"), error)
            except KeyboardInterrupt:
                interrupted = True
        total = len(collection)
    emit(
        args,
        {
            **counts,
            "refused": refused,
            "interrupted": interrupted,
            "total": total,
            **({"dry_run": [{"id": id, "new": new} for id, new in foreseen.items()]} if args.dry_run else {}),
        },
        _added_text(counts, refused, total, args.store, "would be " if args.dry_run else ""),
    )
    if interrupted:
        remark(args, "interrupted; what was added is kept, and the same command takes up the rest")
        return 130
    return 1 if refused else 0


def remove(args: argparse.Namespace) -> int:
    """Run `diptych index remove`: 0 if everything named was there, 1 otherwise."""
    with open_store(args.store) as store:
        # All are looked up before any is removed: a folder and a file in it may be named together.
        named = {name: _named(store, name) for name in args.paths}
        removed = sum(store.remove([id for ids in named.values() for id in ids]))
        unknown = [name for name, ids in named.items() if not ids]
        total = store.count()
    emit(args, {"removed": removed, "unknown": unknown, "total": total}, f"{removed} removed, {total} remain")
    if unknown and not args.json:
        raise UnknownPictureError(f"the collection {args.store} has nothing under {', '.join(unknown)}")
    return 1 if unknown else 0


def stats(args: argparse.Namespace) -> int:
    """Run `diptych index stats`; works beside a running writer and needs no model."""
    with open_store(args.store, read_only=True) as store:
        found = {**store.stats(), "index": store.index_facts()}
    revisions = ", ".join(f"{revision} ({count:,})" for revision, count in found["revisions"].items()) or "none yet"
    lines = [
        f"{found['directory']}",
        f"  pictures  {found['pictures']:,} ({found['kept']:,} with their bytes)",
        f"  model     {revisions}",
        *([f"  changes   {found['sequence']:,}"] if "sequence" in found else []),
        f"  index     {laid_out(found['index'])}",
        *([f"  on disk   {found['disk_bytes'] / 1e6:,.1f} MB"] if "disk_bytes" in found else []),
        *([f"  server    {found['server']}"] if "server" in found else []),
        *([f"  originals {found['originals'] or 'not kept'}"] if "originals" in found else []),
    ]
    emit(args, found, "\n".join(lines))
    return 0


def laid_out(index: Mapping[str, Any]) -> str:
    """The layout of an index in words, with the kind that was `asked` for."""
    if "kind" not in index:
        shown = "none saved yet"
    elif index["kind"] in ("exact", "hnsw"):
        shown = index["kind"]
    else:
        shown = f"ivf, {index['lists']:,} lists, {index['recall']:.1%} of the exact candidates when it was made"
    return shown if index["asked"] == "auto" else f"{shown} ({index['asked']} asked for)"


def check(args: argparse.Namespace) -> int:
    """Run `diptych index verify`: 0 if all is well, 1 if something is damaged."""
    with open_store(args.store, read_only=True) as store:
        verdict = store.verify()
    lines = [f"{len(verdict.problems)} problems in {verdict.pictures:,} pictures"] if verdict.problems else []
    lines += shortened([f"  {text}" for text in verdict.problems])
    lines += [] if verdict.problems else [f"all {verdict.pictures:,} pictures are whole"]
    lines += [f"  note: {text}" for text in verdict.remarks]
    if verdict.problems:
        lines.append(f"`diptych index rebuild --store {args.store}` mends what the files still allow")
    if verdict.recall is not None:
        lines.append(f"  the index finds {verdict.recall:.1%} of the exact candidates")
    emit(args, {"healthy": verdict.healthy, **asdict(verdict)}, "\n".join(lines))
    return 0 if verdict.healthy else 1


def export(args: argparse.Namespace) -> int:
    """Run `diptych index export`: a line of JSON for every picture."""
    if args.output != "-":
        check_output(args.output)
    with open_store(args.store, read_only=True) as store:
        found = progress(
            archive.lines(store, args.filter, embeddings=args.embeddings), args, total=store.count(), unit="picture"
        )
        text = (json.dumps(line, ensure_ascii=False) + "\n" for line in found)
        if args.output == "-":
            sys.stdout.writelines(text)
            return 0
        count = 0
        with replacing(Path(args.output)) as file:
            for line in text:
                file.write(line.encode())
                count += 1
    emit(args, {"output": args.output, "pictures": count}, f"{count:,} pictures in {args.output}")
    return 0


def backup(args: argparse.Namespace) -> int:
    """Run `diptych index backup`; works beside a running writer."""
    if isinstance(args.store, Address):
        raise StoreError(f"{args.store} is backed up by Milvus's own tool; `diptych index export` writes the records")
    with Store.open(args.store, read_only=True) as store, progress((), args, unit="page", desc="copying") as bar:
        size = archive.backup(store, args.target, _told(bar))
    text = f"{args.target}: {size / 1e6:,.1f} MB; open it like any collection"
    emit(args, {"target": str(args.target), "bytes": size}, text)
    return 0


def restore(args: argparse.Namespace) -> int:
    """Run `diptych index restore`; no other process may write to the collection meanwhile."""
    with (
        SqliteBackend.open(args.backup, read_only=True) as copy,
        progress((), args, unit="page", desc="copying") as bar,
    ):
        pictures = archive.restore(copy, args.store, replace=args.replace, progress=_told(bar))
    emit(
        args,
        {"store": str(args.store), "pictures": pictures},
        f"{args.store}: {pictures:,} pictures, as in {args.backup}",
    )
    return 0


def renew(args: argparse.Namespace) -> int:
    """Run `diptych index rebuild`: 0 if every picture has features of the model now, 1 if some could not be read and
    are still there.
    """
    failed: list[dict[str, Any]] = []

    def fail(record: Record, error: Exception) -> None:
        failed.append({"id": record.id, "path": record.path, "reason": str(error)})

    scorer = open_scorer(args)
    with progress((), args, unit="picture", desc="embedding") as bar:
        report = rebuild(
            args.store,
            scorer,
            everything=args.all,
            drop=args.drop_missing,
            index=args.index,
            on_error=fail,
            on_progress=bar.update,
        )
    lines = [f"{report.embedded:,} embedded anew, {report.pictures:,} in the index"]
    lines += ["the database was damaged and is whole again"] if report.mended else []
    if failed:
        fate = "left as they were; put them back, or use --drop-missing"
        if args.drop_missing:
            whole = report.failed - report.removed
            fate = f"{report.removed} removed, {whole} kept, whose bytes are whole" if whole else "removed"
        lines += [
            f"{report.failed} could not be read ({fate}):",
            *shortened([f"  {entry['reason']}" for entry in failed]),
        ]
    emit(args, {**asdict(report), "failures": failed, "dropped": args.drop_missing}, "\n".join(lines))
    return 1 if report.failed > report.removed else 0


def _told(bar: Any) -> Callable[[int, int], None]:
    """A progress bar's way to be told (done, total)."""

    def tell(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return tell


def _named(store: Backend, name: str) -> list[str]:
    if not can_be_kept(name):
        return []
    return [name] if _ID.fullmatch(name) and store.known([name]) else list(store.under(full_path(name)))


@contextmanager
def to_add_to(args: argparse.Namespace, scorer: Scorer) -> Iterator[Collection]:
    """The collection of `--store`; for a dry run to be read only, or an empty one elsewhere where there is none."""
    there = not args.dry_run or isinstance(args.store, Address) or (args.store / DATABASE).is_file()
    reading = args.dry_run and there
    with (
        nullcontext(args.store) if there else TemporaryDirectory() as where,
        Collection.open(where, scorer, create=not reading, read_only=reading) as collection,
    ):
        yield collection


def _added_text(counts: dict[str, int], refused: list[dict[str, str]], total: int, where: Location, would: str) -> str:
    lines = [f"{counts['added']:,} {would}added, {counts['already']:,} already there, {len(refused):,} {would}refused"]
    lines += shortened([f"  {entry['reason']}" for entry in refused])
    return "\n".join([*lines, f"{total:,} pictures in {where}"])
