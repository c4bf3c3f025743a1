"""The service's subcommands. Only parsers are built here; what a command needs is imported when it runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from diptych import demo
from diptych.address import Address, place
from diptych.filters import compiled
from diptych.layout import KINDS
from diptych_export.commandline import Subparsers, command, group
from diptych_export.providers import PROVIDERS

_STORE = "the folder of the collection, or milvus://host:port/name"

Run = Callable[[argparse.Namespace], int]


def register(subparsers: Subparsers) -> None:
    """Add serve, key, index, search, score, rerank, explain, dedupe, doctor, bench and demo."""
    _serve(subparsers)
    _key(subparsers)
    _index(subparsers)
    _search(subparsers)
    _score(subparsers)
    _rerank(subparsers)
    _explain(subparsers)
    _dedupe(subparsers)
    _doctor(subparsers)
    _bench(subparsers)
    demo.register(subparsers)


def _serve(subparsers: Subparsers) -> None:
    parser = command(subparsers, "serve", "serve scores, searches and the web page over HTTP", _later("serving:serve"))
    _stores(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_number(0, 65535), default=8000, help="port, 0 for any (default: %(default)s)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings as TOML; DIPTYCH_* variables win over it")
    _model(parser)


def _key(subparsers: Subparsers) -> None:
    parser = command(subparsers, "key", "make a key for the HTTP service", _later("serving:key"))
    parser.add_argument("name", metavar="NAME", help="whose it is, for the log")
    parser.add_argument("--read-only", action="store_true", help="may not add or remove anything")


def _index(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "index", help="fill and look after a collection", description="Fill and look after a collection."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    add = command(actions, "add", "add picture files and folders", _later("indexing:add"))
    _store(add)
    add.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a picture, or a folder to search through")
    add.add_argument("--keep-bytes", action="store_true", help="keep the files themselves in the collection")
    add.add_argument("--dry-run", action="store_true", help="check everything and write nothing")
    _model(add)

    remove = command(actions, "remove", "forget pictures; their files are left alone", _later("indexing:remove"))
    _store(remove)
    remove.add_argument("paths", nargs="+", metavar="PATH", help="a file, a folder, or the id of a picture")

    stats = command(actions, "stats", "say what a collection holds", _later("indexing:stats"))
    _store(stats)

    verify = command(actions, "verify", "check every picture and the index", _later("indexing:check"))
    _store(verify)

    export = command(actions, "export", "write a line of JSON for every picture", _later("indexing:export"))
    _store(export)
    export.add_argument("-o", "--output", metavar="OUT.jsonl", default="-", help="by default standard output")
    export.add_argument("--embeddings", action="store_true", help="with its embedding, float32 in base64")
    _filter(export)

    backup = command(actions, "backup", "copy a collection while it is in use", _later("indexing:backup"))
    _store(backup)
    backup.add_argument("target", type=Path, metavar="DIR", help="a new folder")

    rebuild = command(
        actions, "rebuild", "embed pictures for another model and write the index", _later("indexing:renew")
    )
    _store(rebuild)
    rebuild.add_argument("--all", action="store_true", help="embed every picture, also those of this model")
    rebuild.add_argument("--drop-missing", action="store_true", help="remove pictures whose file cannot be read")
    rebuild.add_argument(
        "--index", choices=KINDS, help="its kind from now on: exact, approximate (ivf), or by its size (auto)"
    )
    _model(rebuild)


def _search(subparsers: Subparsers) -> None:
    parser = command(subparsers, "search", "find a picture in a collection", _later("asking:search"))
    parser.add_argument("query", metavar="QUERY", help="a picture file, a web address, or - for standard input")
    _store(parser)
    _top(parser, 10)
    parser.add_argument(
        "--candidates",
        type=_number(0),
        default=100,
        help="how many the network looks at; 0 for embeddings alone (default: %(default)s)",
    )
    parser.add_argument(
        "--enough",
        type=_probability,
        metavar="P",
        help="look at no more once as many as --top have this score: faster, not exact",
    )
    _filter(parser)
    _urls(parser)
    _model(parser)


def _score(subparsers: Subparsers) -> None:
    parser = command(subparsers, "score", "score one pair, or all pairs of a table", _later("scoring:score"))
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="PICTURE|PAIRS",
        help="two pictures, or a .csv, .tsv, .jsonl or .parquet file with the columns image_a, image_b",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", help=".csv, .tsv, .jsonl or .parquet file, or - for standard output"
    )
    formats = ("csv", "tsv", "jsonl", "parquet")
    parser.add_argument("--format", choices=formats, help="by default the ending of OUT, or csv")
    parser.add_argument(
        "--columns",
        nargs=2,
        metavar=("A", "B"),
        default=("image_a", "image_b"),
        help="that name the pictures (default: image_a image_b)",
    )
    parser.add_argument("--resume", action="store_true", help="go on where a run that was stopped left off")
    parser.add_argument("--force", action="store_true", help="begin anew and replace what is there")
    parser.add_argument(
        "--workers", type=_number(1), metavar="N", help="processes that share the threads (default: this one alone)"
    )
    parser.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="who computes (default: %(default)s)"
    )
    parser.add_argument("--address", metavar="HOST:PORT", help="the Ray cluster (default: one of this machine alone)")
    _urls(parser)
    _model(parser)
    parser.set_defaults(usage_error=parser.error)


def _rerank(subparsers: Subparsers) -> None:
    parser = command(subparsers, "rerank", "order pictures by their likeness to one", _later("asking:rerank"))
    parser.add_argument("query", metavar="QUERY", help="a picture file, a web address, or - for standard input")
    parser.add_argument("candidates", nargs="+", metavar="CANDIDATE", help="picture files")
    _top(parser, None)
    _urls(parser)
    _model(parser)


def _explain(subparsers: Subparsers) -> None:
    parser = command(subparsers, "explain", "show where two pictures match", _later("asking:explain"))
    parser.add_argument("a", metavar="A", help="a picture file, a web address, or - for standard input")
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument("-o", "--output", metavar="OUT.png", help="both pictures with the links drawn over them")
    parser.add_argument("--links", type=_number(0), default=24, help="how many of the strongest (default: %(default)s)")
    _urls(parser)
    _model(parser)


def _dedupe(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "dedupe", "find groups of pictures that show the same photo", _later("dedupe.commands:run")
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR", help="folders of pictures, searched through")
    parser.add_argument(
        "--threshold",
        type=lambda text: text if text == "auto" else _probability(text),
        default="auto",
        metavar="auto|P",
        help="score from which two pictures match (default: by the model's calibration and their number)",
    )
    parser.add_argument(
        "--candidates", type=_number(1), default=20, help="pictures each one is compared with (default: %(default)s)"
    )
    parser.add_argument(
        "--keep",
        type=lambda text: text.split(","),
        default="resolution,format,exif,oldest",
        metavar="RULES",
        help="which of a group to keep: rules in order, of resolution, format, exif, oldest, newest, largest, shortest "
        "and first-dir (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", metavar="GROUPS", type=Path, help="the groups as .csv or .json")
    parser.add_argument("--report", metavar="OUT.html", type=Path, help="one page with the pictures side by side")
    parser.add_argument("--store", metavar="DIR", type=_folder, help="keep features and scores here, not in your cache")
    _model(parser)
    acts = parser.add_argument_group("acts", "nothing is moved or deleted without one of these")
    act = acts.add_mutually_exclusive_group()
    act.add_argument("--move-to", metavar="DIR", type=Path, help="move what could go there")
    act.add_argument("--delete", action="store_true", help="put what could go into a trash folder, to be emptied later")
    act.add_argument("--undo", metavar="JOURNAL", type=Path, help="put back what a journal says was moved")
    act.add_argument("--empty", metavar="JOURNAL", type=Path, help="delete for good what --delete put aside")
    acts.add_argument("--selection", metavar="LIST", help="a file with the paths that go, as the report saves it")
    acts.add_argument("--dry-run", action="store_true", help="say what would be moved where, and move nothing")
    parser.set_defaults(usage_error=parser.error)


def _doctor(subparsers: Subparsers) -> None:
    parser = command(subparsers, "doctor", "say what this installation runs on and how fast", _later("doctor:run"))
    _stores(parser)
    _model(parser)


def _bench(subparsers: Subparsers) -> None:
    parser, subjects = group(subparsers, "bench", "measure what things cost on this machine")
    parser.set_defaults(run=_later("bench:bench"))
    parser.add_argument(
        "--peer", action="append", choices=("vit-s16",), help="a peer to measure beside (repeatable; default: all)"
    )
    parser.add_argument("--rounds", type=_number(3), default=15, help="rounds in turns (default: %(default)s)")
    parser.add_argument("--memory", action="store_true", help="also the peak memory of small and large requests")
    _model(parser)
    service = command(subjects, "load", "the service under many clients, beside the bare engine", _later("load:bench"))
    service.add_argument(
        "--clients", nargs="+", type=_number(1, 1000), default=[1, 8, 64], metavar="N", help="(default: 1 8 64)"
    )
    service.add_argument("--seconds", type=_number(1), default=20, help="a round (default: %(default)s)")
    _model(service)

    collection = command(subjects, "collection", "fill, open and search a large collection", _later("scale:run"))
    collection.add_argument(
        "--count", type=_number(100), default=100_000, help="small pictures to draw (default: %(default)s)"
    )
    collection.add_argument("--folder", metavar="DIR", type=Path, help="where to put them meanwhile: 12 KB a picture")
    collection.add_argument("--model", default="photo", help="a bundled model or an artifact (default: %(default)s)")

    store = command(subjects, "store", "a folder or a Milvus server, with drawn features", _later("occupancy:run"))
    _store(store)
    store.add_argument("--count", type=_number(200), default=20_000, help="pictures (default: %(default)s)")
    store.add_argument("--model", default="photo", help="whose sizes they have (default: %(default)s)")

    dedupe = command(subjects, "dedupe", "duplicates of known origin, beside hashes", _later("dedupe.bench:run"))
    dedupe.add_argument("photos", metavar="DIR", type=Path, help="photos, of which edited copies are made")
    dedupe.add_argument("--count", type=_number(12), default=20_000, help="pictures in all (default: %(default)s)")
    dedupe.add_argument("--folder", metavar="DIR", type=Path, help="where to put them meanwhile")
    dedupe.add_argument("--model", default="photo", help="a bundled model or an artifact (default: %(default)s)")

    pairs = command(
        subjects, "score", "a large table of pairs, in processes and on Ray nodes", _later("batch.bench:run")
    )
    pairs.add_argument("--pairs", type=_number(1000), default=1_000_000, help="(default: %(default)s)")
    pairs.add_argument("--pictures", type=_number(2), default=5000, help="to draw (default: %(default)s)")
    pairs.add_argument("--workers", nargs="*", type=_number(1), default=[2], metavar="N", help="(default: 2)")
    pairs.add_argument("--nodes", nargs="*", type=_number(1), default=[], metavar="N", help="of Ray (default: none)")
    pairs.add_argument("--folder", metavar="DIR", type=Path, help="where to put them meanwhile")
    pairs.add_argument("--model", default="photo", help="a bundled model or an artifact (default: %(default)s)")


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="DIR|URL", type=_place, required=True, help=_STORE)


def _stores(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--store", metavar="DIR|URL", type=_place, help=_STORE)
    which.add_argument("--collections", metavar="ROOT", type=_folder, help="a folder with the folders of several")


def _urls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--urls", action="store_true", help="fetch pictures that are named by web address (limits: DIPTYCH_URL_*)"
    )


def _filter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--filter", type=_condition, metavar="JSON", help="""only these: '{"label": "shoe", "price": {"$lt": 50}}'"""
    )


def _top(parser: argparse.ArgumentParser, default: int | None) -> None:
    shown = "all" if default is None else default
    parser.add_argument("--top", metavar="N", type=_number(1), default=default, help=f"how many (default: {shown})")


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", default="photo", help="a bundled model or an artifact directory (default: %(default)s)"
    )
    parser.add_argument("--provider", choices=PROVIDERS, default="auto", help="(default: %(default)s)")
    parser.add_argument("--threads", type=_number(1), help="by default what this process may use")


def _place(text: str) -> Path | Address:
    try:
        return place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _folder(text: str) -> Path:
    found = _place(text)
    if isinstance(found, Address):
        raise argparse.ArgumentTypeError(f"expected a folder, got {found}; on Milvus there is one, by --store")
    return found


def _number(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}") from None
        if value < least or (most is not None and value > most):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"expected a number {limits}, got {value}")
        return value

    return parse


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and at most 1, got {text!r}")
    return value


def _condition(text: str) -> dict[str, Any]:
    try:
        condition = json.loads(text)
        compiled(condition)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"expected a condition as JSON: {error}") from None
    return condition


def _later(target: str) -> Run:
    """A run function that imports `diptych.MODULE` and calls FUNCTION in it: `_later("module:function")`."""
    module, function = target.split(":")
    return lambda args: getattr(import_module(f"diptych.{module}"), function)(args)
