"""The cost of each operator: time, peak memory and FLOPs of MSAC and its rivals, side by side at equal width."""

import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import torch

from diptych.console import format_table
from diptych_model import Msac, Scale
from diptych_model.mixers import Mixer, Place
from diptych_studies.benchmarks.timing import Contender, run_race, summarize_contender
from diptych_studies.mixers import MIXERS
from diptych_training.device import torch_threads
from diptych_training.errors import DataError

WIDTH, REPEATS, THREADS, PAIRS = 96, 9, 1, 1
TOKENS = (32, 128, 512, 2048)
WINDOWS = (1, 3, 5, 7)
WINDOWED_TOKENS = 512
YARDSTICK = "msac"
# What settings call the sides of a filter.
FILTER_SIDES = {"n", "m", "k"}


@dataclass(frozen=True)
class Entry:
    """An operator to measure, with the number of tokens, and with its filter size where that varies."""

    operator: str
    kind: str
    settings: Callable[[], Mixer]
    tokens: int
    window: int | None = None


def bench_operators(
    *,
    width: int = WIDTH,
    tokens: Sequence[int] = TOKENS,
    windows: Sequence[int] = WINDOWS,
    windowed_tokens: int = WINDOWED_TOKENS,
    mixers: Sequence[str] | None = None,
    repeats: int = REPEATS,
    threads: int = THREADS,
    pairs: int = PAIRS,
    progress: Callable[[int], Callable[[], object]] | None = None,
) -> dict[str, Any]:
    """Measure the `mixers` (by default all there are) in the place of a pair network's block: two panels, d = d_o.

    `tokens` are the positions of both panels, T = 2 * N * N; there every operator has its own default settings. Those
    with filters are measured once more at `windowed_tokens`, for each of `windows`. MSAC always runs with them: the
    ratios are to it. `progress(rounds)` is called once, and what it returns after every round.

    Returns plain lists and numbers (seconds, bytes, FLOPs). Raises `DataError` for what cannot be measured.
    """
    for name, count in {"width": width, "repeats": repeats, "threads": threads, "pairs": pairs}.items():
        if count < 1:
            raise DataError(f"{name} must be at least 1, got {count}")
    if not (tokens or windows):
        raise DataError("there is nothing to measure: give numbers of tokens, sizes of windows, or both")
    if bad := [size for size in windows if size < 1]:
        raise DataError(f"a window has at least one position, got {bad[0]}")
    for count in (*tokens, windowed_tokens):
        _compute_side(count)
    kinds = _select_kinds(mixers)
    races = [[Entry(kind, kind, MIXERS[kind], count) for kind in kinds] for count in tokens]
    if windows:
        races.append(
            [Entry(YARDSTICK, YARDSTICK, Msac, windowed_tokens), *_list_filter_entries(kinds, windows, windowed_tokens)]
        )
    step = progress(len(races) * repeats) if progress else lambda: None
    environment = _describe_environment(threads)
    with torch_threads(threads):
        rows = [_measure_rows(race, width, pairs, repeats, step) for race in races]
    return {
        "environment": environment,
        "width": width,
        "panels": 2,
        "pairs": pairs,
        "repeats": repeats,
        "yardstick": YARDSTICK,
        "against_tokens": [row for race in rows[: len(tokens)] for row in race],
        "against_windows": [row for race in rows[len(tokens) :] for row in race],
    }


def _measure_rows(
    race: Sequence[Entry], width: int, pairs: int, repeats: int, step: Callable[[], object]
) -> list[dict[str, Any]]:
    built = [_build_contender(entry, width, pairs) for entry in race]
    contenders = [one for one in built if isinstance(one, Contender)]
    run_race(contenders, repeats, step)
    yardstick = next(one for one in contenders if one.row["operator"] == YARDSTICK)
    return [summarize_contender(one, yardstick) if isinstance(one, Contender) else one for one in built]


def _build_contender(entry: Entry, width: int, pairs: int) -> Contender | dict[str, Any]:
    """Build the operator at its place, or the row that says why not."""
    row = {"operator": entry.operator, "kind": entry.kind, "tokens": entry.tokens, "window": entry.window}
    side = _compute_side(entry.tokens)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x, gradient = torch.randn(2, pairs * 2, side, side, width).unbind()
        try:
            module = entry.settings().build(Place(width, width, side, side, panels=2, segments=True))
            with torch.inference_mode():
                module(x)
        except ValueError as error:
            return {**row, "refused": str(error)}
    return Contender(row, module, x, gradient)


def _list_filter_entries(kinds: Iterable[str], windows: Iterable[int], tokens: int) -> Iterator[Entry]:
    """Every operator that has a filter, at every size of it.

    MSAC has one scale, in its three forms; then the rivals come.
    """
    for size in windows:
        forms = {"dense": Scale(size, size), "separable": Scale(size, size, separable=True)}
        if size >= 5 and size % 2:
            # Section 6: a window of 5 as a cascade of two of 3, one of 7 as three. With 3 it would be the dense one.
            forms["cascaded"] = Scale(3, 3, cascade=(size - 1) // 2)
        for form, scale in forms.items():
            yield Entry(f"{YARDSTICK} {form}", YARDSTICK, partial(Msac, (scale,)), tokens, size)
        for kind in kinds:
            cls: Any = MIXERS[kind]
            if sides := FILTER_SIDES & {setting.name for setting in fields(cls)}:
                yield Entry(kind, kind, partial(cls, **dict.fromkeys(sides, size)), tokens, size)


def _select_kinds(mixers: Sequence[str] | None) -> list[str]:
    """The kinds of mixer to measure, the yardstick first."""
    wanted = list(MIXERS) if mixers is None else mixers
    for kind in wanted:
        if kind not in MIXERS:
            near = get_close_matches(kind, MIXERS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(MIXERS)}"
            raise DataError(f"there is no mixer {kind!r}; {hint}")
    return list(dict.fromkeys([YARDSTICK, *wanted]))


def _compute_side(tokens: int) -> int:
    """The side N of two square panels of T = 2 * N * N tokens."""
    side = max(1, round((max(tokens, 0) / 2) ** 0.5))
    if tokens != 2 * side * side:
        raise DataError(
            f"tokens are those of two square panels, 2 * N * N: got {tokens}, the nearest such number is {2 * side**2}"
        )
    return side


def _describe_environment(threads: int) -> dict[str, Any]:
    """The machine and software that the figures depend on.

    `load` is that before the run, near 0 on a quiet machine.
    """
    return {
        "torch": torch.__version__,
        "cpu": _name_processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": threads,
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _name_processor() -> str:
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


MEASURES = ("forward ms", "ratio", "training ms", "ratio", "forward MB", "training MB", "MFLOP", "parameters")


def bench_text(result: dict[str, Any]) -> str:
    """The result of `bench_operators` for people: how it was measured, a table against tokens, one against windows."""
    where, pairs, yardstick = result["environment"], result["pairs"], result["yardstick"]
    parts = [
        f"{pairs} pair{'s' * (pairs > 1)} of panels, d = d_o = {result['width']}, {where['dtype']}, "
        f"{where['threads']} thread{'s' * (where['threads'] > 1)} of {where['cores']} ({where['cpu']}, "
        f"{where['instructions']}), torch {where['torch']}, load before the run {where['load']}.\n"
        f"Times: medians and quartiles of {result['repeats']} interleaved rounds; ratio: to {yardstick} in the same "
        "round, median.\n"
        "training: forward and backward. MB: the most held at one moment above input and parameters. MFLOP: forward."
    ]
    for rows, column in ((result["against_tokens"], "tokens"), (result["against_windows"], "window")):
        if rows:
            parts.append(
                format_table(["operator", column, *MEASURES], [list(_format_cells(row, column)) for row in rows])
            )
            parts += [f"{row['operator']} at T = {row['tokens']}: {row['refused']}" for row in rows if "refused" in row]
    return "\n\n".join(parts)


def _format_cells(row: dict[str, Any], column: str) -> Iterator[str]:
    yield row["operator"]
    yield "own" if row[column] is None else str(row[column])
    if "refused" in row:
        yield from ("refused", *[""] * (len(MEASURES) - 1))
        return
    for way in ("forward", "training"):
        low, median, high = (_format_number(row[way][name] * 1e3) for name in ("low", "median", "high"))
        yield f"{median:>6} ({low}-{high})"
        yield _format_number(row[way]["ratio"])
    for way in ("forward", "training"):
        yield _format_number(row[way]["peak_bytes"] / 1e6)
    yield _format_number(row["flops"] / 1e6)
    yield str(row["parameters"])


def _format_number(value: float) -> str:
    """Write a number with three significant figures, whole ones in full."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value else "0"
