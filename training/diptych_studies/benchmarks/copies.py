"""`diptych bench copies`: how many edited copies each way of searching finds, and the milliseconds of a search.

What is found is measured on all queries as `diptych evaluate copies` does; time is measured on some of them, the ways
in turns, with the references read beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from diptych.bench.model import find_processor
from diptych.console import QUIET, Console, format_count, format_table
from diptych.errors import BenchError
from diptych.scoring.scorer import Scorer
from diptych_studies.benchmarks.searches import CANDIDATES, Copies, Search, searches
from diptych_studies.controls import make_control, measure_controls, open_part
from diptych_training.evaluation.galleries import evaluate_copies, match_copies, read_truth
from diptych_training.evaluation.stages import Entrants

# The encoder as ImageNet left it and late interaction have what the model has, the last two are what a cross-encoder of
# two pictures would cost, and find nothing: nobody has trained them for it.
PEERS = {
    "phash": "pHash",
    "sift": "SIFT and RANSAC",
    "untrained": "the encoder untrained, by cosine",
    "late": "late interaction",
    "cnn": "ResNet-18 over both pictures",
    "vit-s16": "ViT-S/16 over both pictures",
}
PACKAGES = {"phash": ("imagehash",), "untrained": ("torch", "onnx"), "late": ("torch", "onnx")}
FIGURES = ("micro_ap", "recall@1")


def measure(
    folder: Path,
    copies: Copies,
    models: Sequence[str],
    peers: Collection[str] = tuple(PEERS),
    *,
    rounds: int = 25,
    threads: int | None = None,
    console: Console = QUIET,
) -> dict[str, Any]:
    """The figures for `text`, of `models` and of the peers of the first of them; `folder` is for temporary files.

    `rounds` are the queries whose time is taken. Raises BenchError where they are too few.
    """
    if rounds < 3:
        raise BenchError(f"a median needs at least 3 rounds, got {rounds}")
    names = _names(models, peers)
    _check_packages(peers)
    for path in (copies.references, copies.queries, copies.truth):
        if not path.exists():
            raise BenchError(f"{path} does not exist")
    scorers = {name: Scorer.load(name, "copy", threads=threads) for name in models}
    console.remark("what is found ...")
    with console.progress(total=1, unit="step", desc="evaluating") as bar:
        told = _evaluate(copies, models, peers, lambda: bar.update(0))
        bar.update()
    with searches(folder, scorers, copies, names, console) as (queries, works):
        seconds = _times(works, queries, rounds, console)
    found = dict(_found(told, models[0]))
    rows = []
    for key, name in names.items():
        times = [round(float(value) * 1000, 3) for value in np.percentile(seconds[key], [50, 10, 90])]
        rows.append({"name": name, "milliseconds": times, **found.get(key, {})})
    return {
        "processor": find_processor(),
        "threads": scorers[models[0]].runtime.threads,
        "models": {name: scorer.runtime.revision for name, scorer in scorers.items()},
        "rounds": rounds,
        **{key: told[key] for key in ("queries", "distractors", "references", "candidates")},
        "ways": rows,
    }


def text(result: Mapping[str, Any]) -> str:
    """The figures as a table for people."""
    rows = []
    for row in result["ways"]:
        cells = ["{:.3f} ({:.3f} to {:.3f})".format(*row[figure]) if figure in row else "-" for figure in FIGURES]
        middle, low, high = row["milliseconds"]
        rows.append((row["name"], *cells, f"{middle:,.1f}", f"{low:,.1f} to {high:,.1f}"))
    models = ", ".join(f"{name} {revision}" for name, revision in result["models"].items())
    return "\n".join(
        [
            f"{result['processor']}, {format_count(result['threads'], 'thread')}; {models}",
            f"{format_count(result['queries'], 'query', 'queries')}, {result['distractors']:,} of them without a "
            f"match, among {format_count(result['references'], 'reference')}; "
            f"{format_count(result['candidates'], 'candidate')}",
            format_table(("", "micro-AP (95 %)", "recall@1 (95 %)", "ms a search", "10 % to 90 %"), rows),
        ]
    )


def _times(
    works: Mapping[str, Search], queries: Sequence[Path], rounds: int, console: Console
) -> dict[str, list[float]]:
    """The seconds of so many searches of each kind, in turns."""
    console.remark(f"{rounds} searches of each kind, in turns ...")
    seconds: dict[str, list[float]] = {key: [] for key in works}
    with console.progress(total=rounds + 1, unit="round", desc="searching") as bar:
        for number in range(rounds + 1):
            for key, work in works.items():
                took = work(queries[number % len(queries)])
                bar.update(0)
                if number:  # the first round warms up
                    seconds[key].append(took)
            bar.update()
    return seconds


def _names(models: Sequence[str], peers: Collection[str]) -> dict[str, str]:
    """The names of all ways by their keys: a peer, or a model and its stage."""
    if unknown := [peer for peer in peers if peer not in PEERS]:
        raise BenchError(f"no peer is called {unknown[0]!r}; known are {', '.join(PEERS)}")
    names = {peer: name for peer, name in PEERS.items() if peer in peers}
    for model in models:
        names |= {f"{model} first": f"{model}, by embedding", f"{model} search": f"{model}, re-ranked"}
    return names


def _check_packages(peers: Collection[str]) -> None:
    """Raise BenchError where a peer needs packages that are not installed."""
    lacking = [peer for peer, packages in PACKAGES.items() if peer in peers and not all(map(find_spec, packages))]
    if lacking:
        others = " ".join(f"--peer {peer}" for peer in PEERS if peer not in PACKAGES)
        raise BenchError(
            f"to measure {' and '.join(lacking)} takes `pip install 'diptych[train,cpu]'`; {others} goes without"
        )


def _evaluate(
    copies: Copies, models: Sequence[str], peers: Collection[str], tick: Callable[[], object]
) -> dict[str, Any]:
    """The result of `diptych evaluate copies`, with the controls among the peers beside it."""

    def progress(items: Iterable[Any], total: int, name: str) -> Iterator[Any]:
        for item in items:
            yield item
            tick()

    others = [*models[1:], *(f"{peer}:{models[0]}" for peer in ("untrained", "late") if peer in peers)]
    controls = [make_control(peer) for peer in ("phash", "sift") if peer in peers]
    truth = read_truth(copies.truth)
    with ExitStack() as stack:
        model = stack.enter_context(open_part(models[0], "copy"))
        against = {other: stack.enter_context(open_part(other, "copy")) for other in others}
        entrants = Entrants(model, against, progress)
        found = evaluate_copies(entrants, copies.references, copies.queries, truth, candidates=CANDIDATES).result
        search = match_copies(copies.references, copies.queries, truth, CANDIDATES)
        methods = measure_controls(controls, model, search, progress)
    return found | {"controls": {name: one.values | {"interval": one.intervals} for name, one in methods.items()}}


def _found(told: Mapping[str, Any], model: str) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """The key of each way that was evaluated, and its figures with their intervals: [value, low, high]."""

    def figures(values: Mapping[str, Any], intervals: Mapping[str, Any]) -> dict[str, list[float]]:
        return {figure: [values[figure], *intervals[figure]] for figure in FIGURES}

    yield f"{model} first", figures(told["first_stage"], told["interval"]["first_stage"])
    yield f"{model} search", figures(told, told["interval"])
    for control, theirs in told["controls"].items():
        yield control, figures(theirs, theirs["interval"])
    for other, theirs in told["against"].items():
        first, reranked = (figures(theirs[stage], theirs["interval"][stage]) for stage in ("first_stage", "reranked"))
        if other == f"untrained:{model}":
            yield "untrained", first
        elif other == f"late:{model}":
            yield "late", reranked
        else:
            yield from ((f"{other} first", first), (f"{other} search", reranked))
