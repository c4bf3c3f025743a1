"""The commands of `diptych bench` that a checkout has beside those of the service."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from diptych.cli.options import Model, Provider, Question, Threads, open_scorer
from diptych.command_tree import Json, Quiet, amount, number, one_of
from diptych.console import Console, open_text
from diptych.errors import BenchError
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.paths import given_path

Folder = Annotated[Path | None, Option("--folder", metavar="DIR", help="a folder for temporary files, 12 KB a picture")]
_MACHINE = "a machine, with cores like those here; the prices are assumed, name your own"


def operators(
    width: Annotated[int, Option(metavar="D", help="channels")] = 96,
    tokens: Annotated[
        Sequence[int],
        Option(
            parser=number(1),
            metavar="T,T",
            help="positions of both panels, 2 * N * N",
            show_default="32,128,512,2048",
        ),
    ] = (32, 128, 512, 2048),
    windows: Annotated[
        Sequence[int],
        Option(parser=number(1), metavar="N,N", help="filter sizes", show_default="1,3,5,7"),
    ] = (1, 3, 5, 7),
    mixers: Annotated[
        Sequence[str],
        Option(metavar="A,B", help="only these; MSAC always runs with them", show_default="all"),
    ] = (),
    pairs: Annotated[int, Option(metavar="N", help="pairs at a time")] = 1,
    repeats: Annotated[int, Option(metavar="N", help="rounds")] = 9,
    threads: Annotated[int, Option(metavar="N", help="threads of torch")] = 1,
    plot: Annotated[Path, Option(metavar="FILE", help="where it is drawn, as .png, .svg or .pdf")] = Path(
        "operators.png"
    ),
    no_plot: Annotated[bool, Option("--no-plot", help="do not draw it")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Time, memory and FLOPs of MSAC and its rivals."""
    from diptych_studies.benchmarks.operators import bench_operators, bench_text
    from diptych_studies.benchmarks.plot import bench_plot
    from diptych_studies.plot_files import check_plot

    console = Console(as_json, quiet)
    if not no_plot:
        check_plot(plot)
    result = bench_operators(
        width=width,
        tokens=tokens,
        windows=windows,
        mixers=list(mixers) or None,
        repeats=repeats,
        threads=threads,
        pairs=pairs,
        progress=lambda rounds: console.progress(total=rounds, unit="round").update,
    )
    console.emit(result, bench_text(result))
    if not no_plot:
        bench_plot(result, plot)
        console.remark(f"plot: {plot}")
    return 0


def resnets(as_json: Json = False, quiet: Quiet = False) -> int:
    """Attention ResNets counted beside their paper's table."""
    from diptych_studies.benchmarks.resnets import compare_with_paper, resnets_text

    rows = compare_with_paper()
    Console(as_json, quiet).emit([row.to_dict() for row in rows], resnets_text(rows))
    return 0


def score(
    pairs: Annotated[int, Option(parser=number(1000), metavar="N", help="pairs in the table")] = 1_000_000,
    pictures: Annotated[int, Option(parser=number(2), metavar="N", help="pictures to draw")] = 5000,
    workers: Annotated[
        Sequence[int], Option(parser=number(1), metavar="N,N", show_default="2", help="processes, a run each")
    ] = (2,),
    nodes: Annotated[
        Sequence[int], Option(parser=number(1), metavar="N,N", show_default="none", help="Ray nodes, a run each")
    ] = (),
    folder: Folder = None,
    model: Model = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """A large table of pairs, in processes and on Ray nodes.

    Exits with 1 if not every run wrote the same bytes.
    """
    from diptych_studies.benchmarks import tables

    console = Console(as_json, quiet)
    with make_room(folder) as place:
        result = tables.measure(
            place, pairs=pairs, pictures=pictures, workers=workers, nodes=nodes, model=model, console=console
        )
    console.emit(result, tables.text(result))
    return 0 if result["same_bytes"] else 1


def collection(
    count: Annotated[int, Option(parser=number(100), metavar="N", help="small pictures to draw")] = 100_000,
    folder: Folder = None,
    model: Model = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Fill, open and search a large collection."""
    from diptych_runtime.models import find_artifact
    from diptych_studies.benchmarks import collection as collections

    console = Console(as_json, quiet)
    find_artifact(model)  # or it would only be missed once all is drawn
    with make_room(folder) as place:
        result = collections.measure_collection(place, count, model, console)
    console.emit(result, collections.format_figures(result))
    return 0


def dedupe(
    photos: Annotated[Path, Argument(metavar="DIR", help="photos, of which edited copies are made")],
    count: Annotated[int, Option(parser=number(12), metavar="N", help="pictures in all")] = 20_000,
    folder: Folder = None,
    model: Model = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Duplicates of known origin, beside hashes."""
    from diptych_studies.benchmarks import dedupe as duplicates

    console = Console(as_json, quiet)
    with make_room(folder) as place:
        result = duplicates.measure(place, photos, count, model, console.remark)
    console.emit(result, duplicates.text(result))
    return 0


def copies(
    references: Annotated[Path, Option(metavar="DIR", help="the photos to search in")],
    queries: Annotated[Path, Option(metavar="DIR", help="the pictures to search for")],
    truth: Annotated[Path, Option(metavar="T.csv", help="columns query, reference")],
    against: Annotated[
        list[str] | None,
        Option(parser=given_path, metavar="MODEL", help="lay this model beside it (repeatable)", show_default="none"),
    ] = None,
    peer: Annotated[
        list[str] | None,
        Option(
            parser=one_of(["phash", "sift", "untrained", "late", "cnn", "vit-s16"]),
            metavar="PEER",
            help="measure this peer beside it: phash, sift, untrained, late, cnn or vit-s16 (repeatable)",
            show_default="all",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="draw copies found over milliseconds, as .png, .svg or .pdf", show_default="none"),
    ] = None,
    rounds: Annotated[int, Option(parser=number(3), metavar="N", help="searches whose time is taken")] = 25,
    folder: Folder = None,
    model: Model = "photo",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Copies found over the milliseconds of a search, beside the usual alternatives.

    References, queries and truth are what `diptych edit` writes. pHash, the encoder untrained, late interaction and
    `--plot` need `diptych[train]`.
    """
    from diptych_studies.benchmarks import copies as searching
    from diptych_studies.benchmarks.copies_plot import plot as draw
    from diptych_studies.benchmarks.searches import Copies
    from diptych_studies.plot_files import check_plot

    console, models = Console(as_json, quiet), [model, *(other for other in against or () if other != model)]
    if plot:
        check_plot(plot)
    with make_room(folder) as place:
        result = searching.measure(
            place,
            Copies(references, queries, truth),
            models,
            peer or tuple(searching.PEERS),
            rounds=rounds,
            threads=threads,
            console=console,
        )
    console.emit(result, searching.text(result))
    if plot:
        draw(result, plot)
        console.remark(f"plot: {plot}")
    return 0


def labels(
    photos: Annotated[Path, Argument(metavar="DIR", help="the pictures")],
    classes: Annotated[
        Path, Option(metavar="CSV", help="what each shows: columns path (below DIR) and class; one class is the same")
    ],
    question: Question = COPY,
    count: Annotated[int, Option(parser=number(20), metavar="N", help="pairs to label")] = 150,
    folder: Folder = None,
    model: Model = "photo",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """The worth of labels: what a calibration by them gains.

    Answers come from the classes, and half of them are measured on, which no label is about.
    """
    from diptych.pictures.walk import full_path
    from diptych_runtime.session import thread_count
    from diptych_studies.benchmarks import label_figures
    from diptych_studies.benchmarks.labels import Setting, measure

    console = Console(as_json, quiet)
    with open_text(str(classes), newline="") as stream:
        rows = list(csv.DictReader(stream))
    if not rows or not {"path", "class"} <= rows[0].keys():
        raise BenchError(f"{classes} needs the columns path and class, and rows")
    known = {full_path(photos / row["path"]): row["class"] for row in rows}
    setting = Setting(known, question, count, model, threads or thread_count())
    with make_room(folder) as place:
        result = measure(place, setting, console.remark)
    console.emit(result, label_figures.text(result))
    return 0


def estimate(
    pictures: Annotated[
        list[int], Argument(parser=number(1, 10**12), metavar="N", help="numbers of pictures, a column each")
    ],
    queries: Annotated[float, Option(parser=amount, metavar="Q", help="queries a second")] = 10.0,
    candidates: Annotated[int, Option(parser=number(0, 10_000), metavar="N", help="candidates of a query")] = 100,
    seconds: Annotated[
        float, Option(parser=amount, metavar="S", help="time within which 99 of 100 answers come")
    ] = 1.0,
    cores: Annotated[int, Option(parser=number(1), metavar="N", help="processor cores", rich_help_panel=_MACHINE)] = 16,
    memory: Annotated[float, Option(parser=amount, metavar="GIB", help="memory", rich_help_panel=_MACHINE)] = 64.0,
    price: Annotated[
        float, Option(parser=amount, metavar="USD", help="price a month", rich_help_panel=_MACHINE)
    ] = 590.0,
    disk_price: Annotated[
        float, Option(parser=amount, metavar="USD", help="price of a GiB of disk", rich_help_panel=_MACHINE)
    ] = 0.08,
    free_reads: Annotated[
        int, Option(parser=number(0), metavar="N", help="free disk reads a second", rich_help_panel=_MACHINE)
    ] = 3000,
    read_price: Annotated[
        float, Option(parser=amount, metavar="USD", help="price of one more read a second", rich_help_panel=_MACHINE)
    ] = 0.005,
    model: Model = "photo",
    provider: Provider = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Estimate the cost of many pictures from those of one."""
    from diptych_studies.benchmarks import estimate as estimates

    console = Console(as_json, quiet)
    console.remark("measuring what one picture, one pair and one vector cost here ...")
    figures = estimates.measure_figures(open_scorer(model, provider, threads))
    machine = estimates.Machine(cores, memory, price, disk_price, free_reads, read_price)
    loads = [estimates.Load(count, queries, candidates, seconds) for count in pictures]
    plans = [estimates.plan_machines(figures, one, machine) for one in loads]
    cases = [{**asdict(one), **asdict(plan)} for one, plan in zip(loads, plans, strict=True)]
    data = {"figures": asdict(figures), "machine": asdict(machine), "estimates": cases}
    console.emit(data, estimates.format_estimate(figures, machine, loads, plans))
    return 0


@contextmanager
def make_room(folder: Path | None) -> Iterator[Path]:
    """A folder that lasts as long as the bench, inside the named one."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="diptych-bench-") as name:
        yield Path(name)
