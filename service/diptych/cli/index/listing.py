"""`diptych index list` and `export`: the pictures of a collection, as a table and as lines of JSON."""

from __future__ import annotations

import builtins
import json
import sys
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from diptych.cli.options import Filter, Store, check_output
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, counted, table
from diptych_runtime.paths import given_path

_PAGE = 1000


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
            "--limit",
            parser=number(1),
            metavar="N",
            help="list at most this many",
            show_default="all",
            envvar="DIPTYCH_LIMIT",
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
    console.emit(
        {"pictures": [asdict(record) for record in records], "total": total},
        table(("id", "pixels", "added", "path"), rows) if rows else "",
    )
    console.remark(f"{len(rows):,} of {counted(total, 'picture')} in {store}")
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
    from diptych.store.open import open_store
    from diptych.store.sqlite import backup as archive
    from diptych_runtime.atomic import replacing

    console = Console(as_json, quiet)
    if output != "-":
        check_output(output)
    with open_store(store, read_only=True) as backend:
        found = console.progress(
            archive.lines(backend, filter, embeddings=embeddings), total=backend.count(), unit="picture"
        )
        text = (json.dumps(line, ensure_ascii=False) + "\n" for line in found)
        if output == "-":
            sys.stdout.writelines(text)
            return 0
        count = 0
        with replacing(Path(output)) as file:
            for line in text:
                file.write(line.encode())
                count += 1
    console.emit({"output": output, "pictures": count}, f"{counted(count, 'picture')} in {output}")
    return 0
