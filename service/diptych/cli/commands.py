"""The service's subcommands. Only parsers are built here; what a command needs is imported when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from diptych.cli import options
from diptych.console import Subparsers, command, group
from diptych.store.index.layout import KINDS
from diptych_runtime.calibration.questions import COPY, THING

Run = Callable[[argparse.Namespace], int]


def register(subparsers: Subparsers) -> None:
    """Add serve, key, index, search, score, rerank, explain, dedupe, doctor, bench, estimate and demo."""
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
    _estimate(subparsers)
    _demo(subparsers)


def _serve(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "serve", "serve scores, searches and the web page over HTTP", _later("cli.serve:serve")
    )
    options.stores(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=options.number(0, 65535), default=8000, help="port, 0 for any (default: %(default)s)"
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings as TOML; DIPTYCH_* variables win over it")
    parser.add_argument(
        "--sync", nargs="+", type=Path, metavar="FOLDER", help="keep the collection of --store in step with folders"
    )
    parser.add_argument(
        "--sync-every", type=options.SECONDS, default=60, metavar="SECONDS", help="(default: %(default)s)"
    )
    options.model(parser)
    parser.set_defaults(usage_error=parser.error)


def _key(subparsers: Subparsers) -> None:
    parser = command(subparsers, "key", "make a key for the HTTP service", _later("cli.serve:key"))
    parser.add_argument("name", metavar="NAME", help="whose it is, for the log")
    parser.add_argument("--read-only", action="store_true", help="may not add or remove anything")


def _index(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "index", help="fill and look after a collection", description="Fill and look after a collection."
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    add = command(actions, "add", "add picture files and folders", _later("cli.index:add"))
    options.store(add)
    add.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a picture, or a folder to search through")
    add.add_argument("--keep-bytes", action="store_true", help="keep the files themselves in the collection")
    add.add_argument("--dry-run", action="store_true", help="check everything and write nothing")
    options.engine(add)
    options.model(add)
    add.set_defaults(usage_error=add.error)

    sync = command(actions, "sync", "keep a collection in step with folders", _later("cli.sync:sync"))
    sync.add_argument(
        "--store", metavar="DIR", type=options.a_folder, required=True, help="the folder of the collection"
    )
    sync.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="whose pictures the collection is to have"
    )
    sync.add_argument("--every", type=options.SECONDS, metavar="SECONDS", help="go on following until Ctrl-C")
    sync.add_argument("--checksum", action="store_true", help="read all files, whatever their size and time say")
    sync.add_argument(
        "--allow-removal", action="store_true", help="remove however many are gone: more than half, or all of a folder"
    )
    sync.add_argument("--dry-run", action="store_true", help="check everything and write nothing")
    options.model(sync)
    sync.set_defaults(usage_error=sync.error)

    remove = command(actions, "remove", "forget pictures; their files are left alone", _later("cli.index:remove"))
    options.store(remove)
    remove.add_argument("paths", nargs="+", metavar="PATH", help="a file, a folder, or the id of a picture")

    stats = command(actions, "stats", "say what a collection holds", _later("cli.index:stats"))
    options.store(stats)

    verify = command(actions, "verify", "check every picture and the index", _later("cli.index:check"))
    options.store(verify)

    export = command(actions, "export", "write a line of JSON for every picture", _later("cli.index:export"))
    options.store(export)
    export.add_argument("-o", "--output", metavar="OUT.jsonl", default="-", help="by default standard output")
    export.add_argument("--embeddings", action="store_true", help="with its embedding, float32 in base64")
    options.filter(export)

    backup = command(actions, "backup", "copy a collection while it is in use", _later("cli.index:backup"))
    options.store(backup)
    backup.add_argument("target", type=Path, metavar="DIR", help="a new folder")

    restore = command(actions, "restore", "give a collection the state of a backup", _later("cli.index:restore"))
    restore.add_argument("backup", type=Path, metavar="COPY", help="the folder that `diptych index backup` made")
    restore.add_argument(
        "--store", metavar="DIR", type=options.a_folder, required=True, help="the folder of the collection"
    )
    restore.add_argument("--replace", action="store_true", help="also where pictures are lost that the backup has not")

    rebuild = command(
        actions, "rebuild", "embed pictures for another model and write the index", _later("cli.index:renew")
    )
    options.store(rebuild)
    rebuild.add_argument("--all", action="store_true", help="embed every picture, also those of this model")
    rebuild.add_argument("--drop-missing", action="store_true", help="remove pictures whose content is lost")
    rebuild.add_argument(
        "--index", choices=KINDS, help="its kind from now on: exact, approximate (ivf), or by its size (auto)"
    )
    options.model(rebuild)


def _search(subparsers: Subparsers) -> None:
    parser = command(subparsers, "search", "find a picture in a collection", _later("cli.search:search"))
    parser.add_argument("query", metavar="QUERY", help="a picture file, a web address, or - for standard input")
    options.store(parser)
    options.top(parser, 10)
    parser.add_argument(
        "--candidates",
        type=options.number(0),
        default=100,
        help="how many the network looks at; 0 for embeddings alone (default: %(default)s)",
    )
    parser.add_argument(
        "--enough",
        type=options.PROBABILITY,
        metavar="P",
        help="look at no more once as many as --top have this score: faster, not exact",
    )
    options.filter(parser)
    options.question(parser, THING)
    options.urls(parser)
    options.model(parser)


def _score(subparsers: Subparsers) -> None:
    parser = command(subparsers, "score", "score one pair, or all pairs of a table", _later("cli.score:score"))
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
        "--workers",
        type=options.number(1),
        metavar="N",
        help="processes that share the threads (default: this one alone)",
    )
    options.engine(parser)
    options.question(parser, None, "thing; of two pictures both")
    options.urls(parser)
    options.model(parser)
    parser.set_defaults(usage_error=parser.error)


def _rerank(subparsers: Subparsers) -> None:
    parser = command(subparsers, "rerank", "order pictures by their likeness to one", _later("cli.search:rerank"))
    parser.add_argument("query", metavar="QUERY", help="a picture file, a web address, or - for standard input")
    parser.add_argument("candidates", nargs="+", metavar="CANDIDATE", help="picture files")
    options.top(parser, None)
    options.question(parser, THING)
    options.urls(parser)
    options.model(parser)


def _explain(subparsers: Subparsers) -> None:
    parser = command(subparsers, "explain", "show where two pictures match", _later("cli.search:explain"))
    parser.add_argument("a", metavar="A", help="a picture file, a web address, or - for standard input")
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument("-o", "--output", metavar="OUT.png", help="both pictures with the links drawn over them")
    parser.add_argument(
        "--links", type=options.number(0), default=24, help="how many of the strongest (default: %(default)s)"
    )
    options.question(parser, THING)
    options.urls(parser)
    options.model(parser)


def _dedupe(subparsers: Subparsers) -> None:
    parser = command(subparsers, "dedupe", "find groups of pictures that show the same photo", _later("cli.dedupe:run"))
    parser.add_argument("folders", nargs="*", type=Path, metavar="DIR", help="folders of pictures, searched through")
    parser.add_argument(
        "--threshold",
        type=lambda text: text if text == "auto" else options.PROBABILITY(text),
        default="auto",
        metavar="auto|P",
        help="score from which two pictures match (default: by the model's calibration and their number)",
    )
    parser.add_argument(
        "--candidates",
        type=options.number(1),
        default=20,
        help="pictures each one is compared with (default: %(default)s)",
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
    parser.add_argument(
        "--spreadsheet", action="store_true", help="in the .csv, put ' before names that would be taken for formulas"
    )
    parser.add_argument("--report", metavar="OUT.html", type=Path, help="one page with the pictures side by side")
    parser.add_argument(
        "--store", metavar="DIR", type=options.a_folder, help="keep features and scores here, not in your cache"
    )
    options.question(parser, COPY)
    options.engine(parser)
    options.model(parser)
    acts = parser.add_argument_group("acts", "nothing is moved or deleted without one of these")
    act = acts.add_mutually_exclusive_group()
    act.add_argument("--move-to", metavar="DIR", type=Path, help="move the pictures that can be removed there")
    act.add_argument("--delete", action="store_true", help="put them into a trash folder, to be emptied later")
    act.add_argument("--undo", metavar="JOURNAL", type=Path, help="put back what a journal says was moved")
    act.add_argument("--empty", metavar="JOURNAL", type=Path, help="delete for good what --delete put aside")
    acts.add_argument("--selection", metavar="LIST", help="a file with the paths that go, as the report saves it")
    acts.add_argument("--dry-run", action="store_true", help="say what would be moved where, and move nothing")
    parser.set_defaults(usage_error=parser.error)


def _doctor(subparsers: Subparsers) -> None:
    parser = command(subparsers, "doctor", "say what this installation runs on and how fast", _later("cli.doctor:run"))
    options.stores(parser)
    options.model(parser)


def _estimate(subparsers: Subparsers) -> None:
    parser = command(
        subparsers, "estimate", "say what many pictures cost, from what one costs here", _later("cli.estimate:run")
    )
    parser.add_argument(
        "pictures", metavar="N", nargs="+", type=options.number(1, 10**12), help="pictures, a column each"
    )
    parser.add_argument("--queries", metavar="Q", type=options.AMOUNT, default=10.0, help="a second (default: 10)")
    parser.add_argument(
        "--candidates", type=options.number(0, 10_000), default=100, help="of a query (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=options.AMOUNT, default=1.0, help="99 of 100 answers within these (default: 1)"
    )
    parser.add_argument("--tokens", choices=("float16", "int8"), default="float16", help="(default: %(default)s)")
    machine = parser.add_argument_group("a machine", "cores like those here; the prices are assumed, name your own")
    machine.add_argument("--cores", type=options.number(1), default=16, help="(default: %(default)s)")
    machine.add_argument("--memory", metavar="GIB", type=options.AMOUNT, default=64.0, help="(default: 64)")
    machine.add_argument("--price", metavar="USD", type=options.AMOUNT, default=590.0, help="a month (default: 590)")
    machine.add_argument("--disk-price", metavar="USD", type=options.AMOUNT, default=0.08, help="a GiB (default: 0.08)")
    machine.add_argument(
        "--free-reads", metavar="N", type=options.number(0), default=3000, help="a second (default: 3000)"
    )
    machine.add_argument(
        "--read-price",
        metavar="USD",
        type=options.AMOUNT,
        default=0.005,
        help="of one more read a second (default: 0.005)",
    )
    options.model(parser)


def _bench(subparsers: Subparsers) -> None:
    parser, subjects = group(subparsers, "bench", "measure what things cost on this machine")
    parser.set_defaults(run=_later("cli.bench:model"))
    parser.add_argument(
        "--peer", action="append", choices=("vit-s16",), help="a peer to measure beside (repeatable; default: all)"
    )
    parser.add_argument("--rounds", type=options.number(3), default=15, help="rounds in turns (default: %(default)s)")
    parser.add_argument("--memory", action="store_true", help="also the peak memory of small and large requests")
    options.model(parser)
    service = command(
        subjects, "load", "the service under many clients, beside the bare engine", _later("cli.bench:load")
    )
    service.add_argument(
        "--clients", nargs="+", type=options.number(1, 1000), default=[1, 8, 64], metavar="N", help="(default: 1 8 64)"
    )
    service.add_argument("--seconds", type=options.number(1), default=10, help="a round (default: %(default)s)")
    service.add_argument("--rounds", type=options.number(1), default=3, help="(default: %(default)s)")
    options.model(service)

    collection = command(
        subjects, "collection", "fill, open and search a large collection", _later("cli.bench:collection")
    )
    collection.add_argument(
        "--count", type=options.number(100), default=100_000, help="small pictures to draw (default: %(default)s)"
    )
    collection.add_argument("--folder", metavar="DIR", type=Path, help="where to put them meanwhile: 12 KB a picture")
    collection.add_argument("--model", default="photo", help="a bundled model or an artifact (default: %(default)s)")

    store = command(subjects, "store", "a folder or a Milvus server, with drawn features", _later("cli.bench:store"))
    options.store(store)
    store.add_argument("--count", type=options.number(200), default=20_000, help="pictures (default: %(default)s)")
    store.add_argument("--model", default="photo", help="whose sizes they have (default: %(default)s)")

    dedupe = command(subjects, "dedupe", "duplicates of known origin, beside hashes", _later("cli.bench:dedupe"))
    dedupe.add_argument("photos", metavar="DIR", type=Path, help="photos, of which edited copies are made")
    dedupe.add_argument(
        "--count", type=options.number(12), default=20_000, help="pictures in all (default: %(default)s)"
    )
    dedupe.add_argument("--folder", metavar="DIR", type=Path, help="where to put them meanwhile")
    dedupe.add_argument("--model", default="photo", help="a bundled model or an artifact (default: %(default)s)")

    pairs = command(
        subjects, "score", "a large table of pairs, in processes and on Ray nodes", _later("cli.bench:pairs")
    )
    pairs.add_argument("--pairs", type=options.number(1000), default=1_000_000, help="(default: %(default)s)")
    pairs.add_argument("--pictures", type=options.number(2), default=5000, help="to draw (default: %(default)s)")
    pairs.add_argument("--workers", nargs="*", type=options.number(1), default=[2], metavar="N", help="(default: 2)")
    pairs.add_argument(
        "--nodes", nargs="*", type=options.number(1), default=[], metavar="N", help="of Ray (default: none)"
    )
    pairs.add_argument("--folder", metavar="DIR", type=Path, help="where to put them meanwhile")
    pairs.add_argument("--model", default="photo", help="a bundled model or an artifact (default: %(default)s)")


def _demo(subparsers: Subparsers) -> None:
    parser = command(subparsers, "demo", "draw a demonstration collection to index and search", _later("cli.demo:run"))
    parser.add_argument(
        "folder", type=Path, help="where to draw it: a new or empty folder, or one it was drawn in before"
    )
    parser.add_argument("--count", type=int, default=240, help="pictures in the collection (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other pictures (default: %(default)s)")


def _later(target: str) -> Run:
    """A run function that imports `diptych.MODULE` and calls FUNCTION in it: `_later("module:function")`."""
    module, function = target.split(":")
    return lambda args: getattr(import_module(f"diptych.{module}"), function)(args)
