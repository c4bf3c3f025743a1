"""`diptych index list`, `export`, `stats`, `verify` and `remove`: what a collection holds, and in what state."""

from __future__ import annotations

import builtins
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from diptych.cli.options import Checksum, Filter, Store, check_output
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, byte_size, format_count, format_section, format_table
from diptych.errors import UnknownPictureError
from diptych_runtime.paths import given_path, shell_word

if TYPE_CHECKING:
    from diptych.store.open import Backend
    from diptych_runtime.manifest import Manifest

_PAGE = 1000
_ID = re.compile(r"[0-9a-f]{32}")


def list(
    store: Store,
    paths: Annotated[
        builtins.list[str] | None,
        Argument(
            parser=given_path, metavar="PATH", help="only this file, or those below this folder", show_default="all"
        ),
    ] = None,
    limit: Annotated[
        int | None,
        Option(
            parser=number(1), metavar="N", help="list at most this many", show_default="all", envvar="DIPTYCH_LIMIT"
        ),
    ] = None,
    filter: Filter = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """List the pictures of a collection.

    They are in the order in which they were added. Works while another process writes to the collection, and needs no
    model.
    """
    from diptych.pictures.walk import full_path
    from diptych.store.open import open_store

    console = Console(as_json, quiet)
    with open_store(store, read_only=True) as backend:
        wanted = {id for path in paths or () for id in backend.under(full_path(path))}
        every = chain.from_iterable(backend.pages(_PAGE, filter))
        records = [*islice((record for record in every if not paths or record.id in wanted), limit)]
        total = backend.count()
    rows = [
        (
            record.id,
            f"{record.width} x {record.height}" + (f" x {record.frames}" if (record.frames or 1) > 1 else ""),
            record.added[:10],
            record.path or "-",
        )
        for record in records
    ]
    shown = format_table(("id", "pixels", "added", "path"), rows) if rows else ""
    console.emit({"pictures": [asdict(record) for record in records], "total": total}, shown)
    console.remark(f"{len(rows):,} of {format_count(total, 'picture')} in {store}")
    return 0


def export(
    store: Store,
    output: Annotated[
        str,
        Option(
            "-o",
            "--output",
            parser=given_path,
            metavar="OUT.jsonl",
            help="output file",
            show_default="standard output",
            envvar="DIPTYCH_OUTPUT",
        ),
    ] = "-",
    embeddings: Annotated[
        bool, Option("--embeddings", help="include the embeddings, float32 in base64", envvar="DIPTYCH_EMBEDDINGS")
    ] = False,
    filter: Filter = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write a line of JSON for every picture."""
    from diptych.store.open import export_lines, open_store
    from diptych_runtime.atomic import replacing_stream

    console = Console(as_json, quiet)
    if output != "-":
        check_output(output)
    with open_store(store, read_only=True) as backend:
        records = export_lines(backend, filter, embeddings=embeddings)
        bar = console.progress(records, total=backend.count(), unit="picture")
        lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in bar)
        if output == "-":
            sys.stdout.writelines(lines)
            return 0
        with replacing_stream(Path(output)) as file:
            file.writelines(line.encode() for line in lines)
    console.emit({"output": output, "pictures": bar.n}, f"{format_count(bar.n, 'picture')} in {output}")
    return 0


def remove(
    paths: Annotated[
        builtins.list[str], Argument(parser=given_path, metavar="PATH", help="a file, a folder, or the id of a picture")
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
        named = {name: _find_ids(backend, name) for name in paths}
        removed = sum(backend.remove([id for ids in named.values() for id in ids]))
        unknown = [name for name, ids in named.items() if not ids]
        total = backend.count()
    Console(as_json, quiet).emit(
        {"removed": removed, "unknown": unknown, "total": total},
        f"{removed:,} removed, {format_count(total, 'picture')} left",
    )
    if unknown and not as_json:
        raise UnknownPictureError(f"the collection {store} has nothing under {', '.join(unknown)}")
    return 1 if unknown else 0


def _find_ids(store: Backend, name: str) -> builtins.list[str]:
    """The pictures that a name means: an id, a file, or all below a folder."""
    from diptych.pictures.walk import can_be_kept, full_path
    from diptych_runtime.paths import other_forms

    if not can_be_kept(name):
        return []
    if _ID.fullmatch(name) and store.known_ids([name]):
        return [name]
    path = full_path(name)
    return next(([*ids] for form in (path, *other_forms(path)) if (ids := store.under(form))), [])


def verify(store: Store, checksum: Checksum = False, as_json: Json = False, quiet: Quiet = False) -> int:
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
    pictures = format_count(verdict.pictures, "picture")
    lines = format_section(f"{format_count(len(verdict.problems), 'problem')} in {pictures}", verdict.problems)
    lines = lines or [f"{pictures} checked" + ("" if stale else ", no problem found")]
    lines += [f"  note: {text}" for text in verdict.remarks]
    if files is None:
        lines.append("  note: files are compared once the damage is mended")
        lines.append(f"`diptych index rebuild --store {shell_word(store)}` mends what the files still allow")
    else:
        changed, missing = (format_count(len(paths), "file") for paths in (files.changed, files.missing))
        lines += format_section(f"{changed} changed after adding, which searches do not know:", files.changed)
        lines += format_section(f"{missing} missing or unreadable:", files.missing)
        if files.changed or files.missing:
            lines.append("bring the collection up to date with `diptych index sync FOLDER`, or `remove` and `add`")
    found = {"healthy": verdict.healthy, **asdict(verdict), "files": None if files is None else asdict(files)}
    Console(as_json, quiet).emit(found, "\n".join(lines))
    return 0 if verdict.healthy and not stale else 1


def stats(store: Store, as_json: Json = False, quiet: Quiet = False) -> int:
    """Show the pictures, model, index and size of a collection.

    Works while another process writes to the collection, and needs no model: its name is that of the bundled model, or
    of your own, that has the revision.
    """
    from diptych.store.open import open_store
    from diptych_runtime.models import FORMER, models_by_name, names_by_revision

    known = models_by_name()
    names = names_by_revision(known)
    described = {revision: f"an earlier release of {name}" for revision, name in FORMER.items()} | names
    with open_store(store, read_only=True) as backend:
        found = {**backend.stats(), "index": backend.index_facts()}
    revisions, adopted = found["revisions"], found.get("adopted")
    found["calibration"] = _describe_calibration(backend.folder, revisions, known)
    found["models"] = {revision: names.get(revision) for revision in revisions}
    if adopted and len(revisions) == 1:
        described = dict.fromkeys(revisions, Path(adopted).name) | described
    models = [
        f"{described.get(revision, 'not here by name')} ({revision}), {format_count(count, 'picture')}"
        for revision, count in revisions.items()
    ]
    rows = {
        "pictures": f"{found['pictures']:,} ({found['kept']:,} with their bytes)",
        "model": "; ".join(models) or "none yet",
        "adopted": adopted,
        "verdicts": found["calibration"]["text"] if found["calibration"] else "as released",
        "changes": f"{found['sequence']:,}" if "sequence" in found else None,
        "index": found["index"]["kind"],
        "on disk": byte_size(found["disk_bytes"]) if "disk_bytes" in found else None,
        "server": found.get("server"),
        "originals": (found["originals"] or "not kept") if "originals" in found else None,
    }
    lines = [f"{found['directory']}", *(f"  {name:9} {text}" for name, text in rows.items() if text)]
    Console(as_json, quiet).emit(found, "\n".join(lines))
    return 0


def _describe_calibration(
    folder: Path | None, revisions: Mapping[str, int], models: Mapping[str, Manifest]
) -> dict[str, Any] | None:
    """The calibration in the folder of a collection, and whether commands take it: not one over another model."""
    from diptych_runtime.errors import ArtifactError
    from diptych_runtime.own_calibration import OwnCalibration

    try:
        own = None if folder is None else OwnCalibration.load_beside(folder)
        if own is None:
            return None
        of_model = [manifest for manifest in models.values() if manifest.revision == own.revision]
        fitting = [own.apply_to(manifest) for manifest in of_model if own.fits(manifest)]
    except ArtifactError as error:
        return {"in_force": False, "error": str(error), "text": str(error)}
    in_force = bool(fitting or not of_model) and (not revisions or own.revision in revisions)
    left_out = f"as released; the calibration of {own.made} was made over another model ({own.model}, {own.revision})"
    return {
        "made": own.made,
        "model": own.model,
        "revision": own.revision,
        "questions": {name: {"same": one.same, "different": one.different} for name, one in own.questions.items()},
        "in_force": in_force,
        "text": f"by the collection's own calibration of {own.made}" if in_force else left_out,
    }
