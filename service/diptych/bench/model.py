"""`diptych bench`: what scoring and searching cost here, beside what the machine can do and what a peer costs.

Everything is measured in one run, in turns, so that what disturbs one disturbs all; figures are medians.
"""

from __future__ import annotations

import csv
import io
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from PIL import Image

from diptych.bench.command import run_with_peak
from diptych.bench.demo.collection import draw_collection
from diptych.bench.graphs import SGEMM_SIZE, open_yardstick
from diptych.bench.peers import COUNTS, OURS, PEERS, cost_candidates, list_comparable, make_works
from diptych.collection.collection import Collection
from diptych.console import format_count, format_table
from diptych.errors import BenchError
from diptych.scoring.scorer import Scorer

CANDIDATES, PICTURES = 100, 32
REQUESTS = (CANDIDATES, 10_000)  # pairs, whose peak memory is compared

REST = 0.05  # seconds between two works
Work = Callable[[], object]  # a float is its own count of the seconds


def measure_model(
    scorer: Scorer, *, rounds: int = 15, peers: list[str] | None = None, tick: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Measure a model: medians of `rounds`, with the 10th and 90th percentile. Raises BenchError."""
    if "late" in (peers or ()) and "late" not in list_comparable(scorer.runtime.manifest):
        raise BenchError(f"the peer late relates tokens, and {scorer.runtime.name} has none but pixels; name others")
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, _prepare_works(scorer, Path(folder), peers or []) as tasks:
        for number in range(rounds + 1):
            for name, work in tasks.items():
                # The threads of what ran before look out for more work for a while, on the cores of what is next.
                sleep(REST)
                began = perf_counter()
                made = work()
                took = made if isinstance(made, float) else perf_counter() - began
                if number:  # the first round warms up
                    seconds.setdefault(name, []).append(took)
            if number:
                tick()
    return _make_result(scorer, {name: np.array(each) for name, each in seconds.items()}, rounds)


def peak_memory(model: str) -> dict[str, int]:
    """Bytes that `diptych score` held at most, for each number of pairs in `REQUESTS`, in a process of its own."""
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        photos = draw_collection(Path(folder, "drawn"), count=CANDIDATES)
        for count in REQUESTS:
            pairs = Path(folder, f"{count}.csv")
            with pairs.open("w", newline="", encoding="utf-8") as file:
                rows = ((photos[i % CANDIDATES], photos[i // CANDIDATES]) for i in range(count))
                csv.writer(file).writerows([("image_a", "image_b"), *rows])
            options = ["score", pairs, "-o", pairs.with_suffix(".jsonl"), "--no-closer-look", "--quiet"]
            peaks[str(count)] = run_with_peak(*options, "--model", model)[1]
    return peaks


@contextmanager
def _prepare_works(scorer: Scorer, folder: Path, peers: list[str]) -> Iterator[dict[str, Work]]:
    threads, rng = scorer.runtime.threads, np.random.default_rng(0)
    matrix = rng.random((SGEMM_SIZE, SGEMM_SIZE), np.float32)
    sgemm = open_yardstick("sgemm", threads)
    photos = draw_collection(folder / "drawn", count=CANDIDATES + 20)
    files = [resize_photo(path) for path in photos[:PICTURES]]
    tokens = scorer.panels(photos[: CANDIDATES + 1]).tokens
    store = folder / "store"
    with Collection.open(store, scorer, create=True) as collection:
        collection.add(photos)

    def search_cold() -> float:
        for path in store.rglob("*"):
            if path.is_file():
                drop_from_cache(path)
        with Collection.open(store, scorer, read_only=True) as collection:
            began = perf_counter()
            collection.search(files[0], candidates=CANDIDATES)
            return perf_counter() - began

    def time_product() -> float:
        sgemm.run(None, {"a": matrix, "b": matrix})  # it takes its memory anew, which takes as long as the product
        began = perf_counter()
        sgemm.run(None, {"a": matrix, "b": matrix})
        return perf_counter() - began

    tasks: dict[str, Work] = {
        "sgemm": time_product,
        "pictures": lambda: scorer.panels(files),
        "cold": search_cold,
        f"{OURS} read": lambda: scorer.panels(files[:1]),
    }
    for count in COUNTS:
        tasks[f"{OURS} {count}"] = lambda count=count: scorer.logits(tokens[:1], tokens[1 : count + 1])
    for name in peers:
        tasks |= make_works(name, files, tokens, threads)
    with Collection.open(store, scorer, read_only=True) as collection:
        tasks["search"] = lambda: collection.search(files[0], candidates=CANDIDATES)
        yield tasks


def _make_result(scorer: Scorer, seconds: dict[str, np.ndarray], rounds: int) -> dict[str, Any]:
    runtime, flops = scorer.runtime, scorer.runtime.manifest.flops
    rate = 2 * SGEMM_SIZE**3 / seconds["sgemm"].min()  # what the machine can do is what it did once
    pair = np.median(seconds[f"{OURS} {CANDIDATES}"]) / CANDIDATES
    candidates = cost_candidates({name: float(np.median(each)) * 1000 for name, each in seconds.items()})
    return {
        "machine": {"processor": find_processor(), "threads": runtime.threads},
        "model": runtime.name,
        "revision": runtime.revision,
        "provider": runtime.provider,
        "attention_path": runtime.attention_path,
        "pair_path": runtime.pair_path,
        "rounds": rounds,
        "milliseconds": {
            name: [round(float(value) * 1000, 3) for value in np.percentile(each, [50, 10, 90])]
            for name, each in seconds.items()
        },
        "sgemm_gflops": float(rate / 1e9),
        "pair_of_sgemm": float(flops["pair"] / pair / rate) if flops else None,
        "pictures_per_second": float(PICTURES / np.median(seconds["pictures"])),
        "pairs_per_second": float(1 / pair),
        "candidates": candidates,
    }


def format_figures(result: dict[str, Any]) -> str:
    """Format the figures as a table for people."""
    times = result["milliseconds"]

    def format_row(what: str, name: str, ratio: str) -> tuple[str, str, str, str]:
        middle, low, high = times[name]
        return what, f"{middle:.1f}", f"{low:.1f} to {high:.1f}", ratio

    share = result["pair_of_sgemm"]
    of_rate = f"{result['pairs_per_second']:,.0f} pairs/s"
    if share is not None:
        of_rate += f", {share:.0%} of the rate of sgemm"
    read_rate = f"{result['pictures_per_second']:,.0f} pictures/s"
    rows = [
        format_row(f"sgemm, {SGEMM_SIZE}^3", "sgemm", f"{result['sgemm_gflops']:.0f} GFLOP/s at best"),
        format_row(f"{CANDIDATES} candidates, tokens at hand", f"{OURS} {CANDIDATES}", of_rate),
        format_row(f"a search with {CANDIDATES} candidates", "search", "from the query's file to the matches"),
        format_row("the same, nothing of the store in memory", "cold", ""),
        format_row(f"{PICTURES} JPEGs of 640 x 480 to tokens", "pictures", read_rate),
    ]
    machine = result["machine"]
    lines = [
        f"{machine['processor']}, {format_count(machine['threads'], 'thread')}; {result['provider']}",
        f"model {result['model']} {result['revision']}; attention by {result['attention_path']}; "
        f"pairs in {result['pair_path']}",
        format_table(("", "ms", "10 % to 90 %", ""), rows),
        "",
        _costs_text(result["candidates"]),
    ]
    if peaks := result.get("memory"):
        few, many = (peaks[str(count)] for count in REQUESTS)
        lines.append(
            f"peak memory: {few / 2**20:.0f} MiB for {REQUESTS[0]:,} pairs, {many / 2**20:.0f} MiB for "
            f"{REQUESTS[1]:,}: {many / few:.2f} times"
        )
    return "\n".join(lines)


def _costs_text(candidates: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The milliseconds a candidate of each way to score, for one query and 1, 32 or 100 candidates."""
    tables = []
    for kind, said in (("stored", "candidates read before"), ("files", "candidates read with the query")):
        ours = candidates[OURS][kind][str(COUNTS[-1])]
        rows = []
        for name, costs_of in candidates.items():
            cells = [costs_of[kind][str(count)] for count in COUNTS]
            times = f"{cells[-1] / ours:,.2g}" if cells[-1] < 10 * ours else f"{cells[-1] / ours:,.0f}"
            rows.append((PEERS.get(name, "this model"), *(f"{cell:,.2f}" for cell in cells), times))
        tables.append(format_table((f"ms each, {said}", *map(str, COUNTS), "times ours"), rows))
    return "\n\n".join(tables)


def resize_photo(path: Path) -> bytes:
    """A drawn picture as a JPEG of 640 x 480."""
    buffer = io.BytesIO()
    with Image.open(path) as picture:
        picture.resize((640, 480), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def drop_from_cache(path: Path) -> None:
    """Drop a file from the system's cache, so that it is read from the disk."""
    if hasattr(os, "posix_fadvise"):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def find_processor() -> str:
    """Find the name of this machine's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
