"""A grid of independent runs: side by side in processes of one thread each, every finished one a file of its own.

Small networks are trained faster by two processes of one thread than by one of two. What is finished is not computed
again, so a grid that was interrupted, or is given more seeds, goes on.
"""

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diptych_runtime.atomic import replacing_file
from diptych_training.errors import DataError
from diptych_training.workers import worker_pool

Settings = Mapping[str, Any]


def run_grid(
    directory: Path,
    runs: Mapping[str, Settings],
    work: Callable[..., dict[str, Any]],
    *,
    given: Settings | None = None,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
    known: Callable[[str, dict[str, Any]], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return `work(**settings)` of every run by name, reading the results that `directory` has and writing those that
    it lacks.

    Settings and results must be JSON, `work` a function of a module or a `partial` of one (what that binds is no part
    of the settings). `given` is what results depend on besides, such as the digest of the data: it is kept with the
    settings. `processes` is by default the number of cores, and 0 runs everything in this process. `finished` is called
    with the name of each run as it ends, `known` with the name and the result of each, those that were read too. Raises
    `DataError` for a run that the directory has with other settings, or whose file is damaged.
    """
    if processes is not None and processes < 0:
        raise DataError(f"processes must be positive, or 0 for none but this one, got {processes}")
    runs_as_kept = {name: {**settings, **(given or {})} for name, settings in runs.items()}
    directory.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    for name, settings in runs_as_kept.items():
        kept = _read_result(directory / f"{name}.json", settings)
        if kept is not None:
            results[name] = kept
            if known is not None:
                known(name, kept)

    def keep_result(name: str, result: dict[str, Any]) -> None:
        _write_json(directory / f"{name}.json", {"settings": runs_as_kept[name], "result": result})
        results[name] = result
        if known is not None:
            known(name, result)
        if finished is not None:
            finished(name)

    waiting = [name for name in runs if name not in results]
    if processes == 0:
        with _single_thread():
            for name in waiting:
                keep_result(name, work(**runs[name]))
    elif waiting:
        count = min(processes or len(os.sched_getaffinity(0)), len(waiting))
        with worker_pool(count) as pool:
            futures = {pool.submit(work, **runs[name]): name for name in waiting}
            pending = set(futures)
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                # Those that failed last, so that what ended beside them is kept.
                for future in sorted(done, key=lambda future: future.exception() is not None):
                    keep_result(futures[future], future.result())
    return {name: results[name] for name in runs}


def write_runs(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV with a line a run, a curve as numbers between spaces; what is in no column is left out."""
    with replacing_file(path) as unfinished, unfinished.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            lists = {name: " ".join(map(str, value)) for name, value in row.items() if isinstance(value, list | tuple)}
            writer.writerow({**row, **lists})


@contextmanager
def _single_thread() -> Iterator[None]:
    """As in a worker: with more threads sums are taken in another order, and the last digits differ."""
    from diptych_training.device import torch_threads

    with torch_threads(1):
        yield


def _read_result(path: Path, settings: Settings) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text())
        kept, result = stored["settings"], stored["result"]
        if not (isinstance(kept, dict) and isinstance(result, dict) and result):
            raise TypeError("it has no settings or no result")
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged ({error}): remove it to make that run again") from None
    asked = json.loads(json.dumps(settings))
    if kept != asked:
        changed = sorted(k for k in asked | kept if asked.get(k) != kept.get(k))
        raise DataError(
            f"{path} was made with other settings ({', '.join(changed)} differ): "
            "name another directory, or remove that file to make it again"
        )
    return result


def _write_json(path: Path, values: dict[str, Any]) -> None:
    with replacing_file(path) as unfinished:
        unfinished.write_text(json.dumps(values, indent=1) + "\n")
