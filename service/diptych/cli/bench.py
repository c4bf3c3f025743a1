"""`diptych bench` and the commands below it, which leave nothing behind, and `diptych demo`, which draws pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from diptych.cli.options import Location, Model, Provider, Threads, open_scorer, read_location
from diptych.command_tree import Json, Quiet, number, one_of
from diptych.console import Console, format_count
from diptych.errors import BenchError
from diptych_runtime.paths import shell_word


def bench(
    peer: Annotated[
        list[str] | None,
        Option(
            parser=one_of(["late", "sift", "cnn", "vit-s16"]),
            metavar="PEER",
            help="measure this peer beside it: late, sift, cnn or vit-s16 (repeatable)",
            show_default="all",
        ),
    ] = None,
    rounds: Annotated[int, Option(parser=number(3), metavar="N", help="rounds, the peers in turns")] = 15,
    memory: Annotated[bool, Option("--memory", help="also the peak memory of small and large requests")] = False,
    model: Model = "photo",
    provider: Provider = "auto",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Measure costs on this machine.

    Without a command it measures a model: a picture, a pair and a request, beside peers.
    """
    from diptych.bench import model as models
    from diptych.bench.peers import list_comparable

    console, scorer = Console(as_json, quiet), open_scorer(model, provider, threads)
    peers = peer or list_comparable(scorer.runtime.manifest)
    with console.progress(total=rounds, unit="round") as bar:
        result = models.measure_model(scorer, rounds=rounds, peers=peers, tick=bar.update)
    if memory:
        few, many = models.REQUESTS
        console.remark(f"scoring {few:,} and {many:,} pairs in processes of their own ...")
        result["memory"] = models.peak_memory(model)
    console.emit(result, models.format_figures(result))
    return 0


def store(
    store: Annotated[Location, Option(parser=read_location, metavar="DIR|URL", help="a new collection for the bench")],
    count: Annotated[int, Option(parser=number(200), metavar="N", help="pictures")] = 20_000,
    model: Model = "photo",
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """A folder or a Milvus server, with drawn features of the model's sizes."""
    from diptych.bench import store as stores
    from diptych.store.open import open_searchable
    from diptych_runtime.runtime import Runtime

    console, runtime = Console(as_json, quiet), Runtime.open(model)
    with open_searchable(store, runtime, create=True, read_only=False) as backend:
        if backend.count():
            raise BenchError(f"{backend.name} holds {backend.count():,} pictures; name a new collection for the bench")
        with console.progress(total=count, unit="picture", desc="adding") as bar:
            result = stores.measure_store(backend, runtime, count, bar.update)
    console.emit(result, stores.format_figures(result))
    return 0


def demo(
    folder: Annotated[
        Path,
        Argument(metavar="DIR", help="a new or empty folder, or one with an earlier demonstration"),
    ],
    count: Annotated[int, Option(metavar="N", help="pictures in the collection")] = 240,
    seed: Annotated[int, Option(metavar="N", help="random seed")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Draw a demonstration collection to index and search."""
    from diptych.bench.demo.collection import STORE, draw_collection

    console = Console(as_json, quiet)
    photos = draw_collection(folder, count=count, seed=seed, quiet=console.is_silent)
    places = {"photos": folder / "photos", "queries": folder / "queries", "truth": folder / "truth.csv"}
    text = f"{format_count(len(photos), 'picture')} in {places['photos']}, to find with {places['queries']}"
    if not console.is_silent:
        text += f"\nNext: diptych index add {shell_word(places['photos'])} --store {shell_word(folder / STORE)}"
    console.emit({"count": len(photos), **places}, text)
    return 0
