"""`diptych bench score`: what a large table of pairs costs here, in one process, in several, on Ray nodes, and killed.

Everything runs through the ordinary command line, in processes of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from diptych.batch.parts.folder import folder_of
from diptych.batch.tables.read import hash_file
from diptych.bench.command import start_process
from diptych.bench.model import find_processor
from diptych.console import QUIET, Console, format_table
from diptych.errors import BenchError
from diptych_studies.benchmarks.collection import draw_cuts

_LOOK = 0.1  # seconds between two looks at the memory
# Nodes of one processor each, and a head that computes nothing, until standard input ends.
_NODES = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
head = {"num_cpus": 0, "object_store_memory": 100 * 2**20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
for _ in range(int(sys.argv[1])):
    cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def measure(
    folder: Path,
    *,
    pairs: int,
    pictures: int,
    workers: Sequence[int] = (),
    nodes: Sequence[int] = (),
    model: str = "photo",
    console: Console = QUIET,
) -> dict[str, Any]:
    """The figures for `text`, measured on a table drawn into `folder`: in one process, with so many `workers` and Ray
    `nodes` each, and killed half-way. Raises BenchError if a run fails.
    """
    console.remark(f"drawing {pictures:,} pictures ...")
    table_of_pairs = draw(folder, pairs, pictures, console)
    result: dict[str, Any] = {"processor": find_processor(), "model": model, "pairs": pairs, "runs": {}}
    runs = result["runs"]
    for label, options, count in _variants(workers, nodes):
        console.remark(f"{label} ...")
        with _cluster(count) as address:
            rest = [*options, "--address", address] if address else options
            runs[label] = _scored(table_of_pairs, folder / "out.csv", ["--model", model, *rest])
        console.remark(f"... {runs[label]['seconds']:,.1f} s")
    console.remark("killed half-way, and resumed ...")
    runs["killed and resumed"] = _killed(table_of_pairs, folder / "out.csv", ["--model", model])
    result["same_bytes"] = len({each.pop("sha256") for each in runs.values()}) == 1
    return result


def draw(folder: Path, pairs: int, pictures: int, console: Console = QUIET) -> Path:
    """A table of random pairs of drawn pictures, which lie in `photos` beside it."""
    (folder / "photos").mkdir()
    names = [f"photos/{number:07d}.jpg" for number in range(pictures)]
    with console.progress(total=pictures, unit="picture", desc="drawing") as bar:
        for name, picture in zip(names, draw_cuts(pictures, 0), strict=True):
            picture.save(folder / name, "JPEG", quality=85)
            bar.update()
    random = np.random.default_rng(0)
    with (folder / "pairs.csv").open("w", encoding="utf-8") as file:
        file.write("image_a,image_b\n")
        for start in range(0, pairs, 100_000):
            sides = random.integers(0, pictures, (min(100_000, pairs - start), 2)).tolist()
            file.writelines(f"{names[a]},{names[b]}\n" for a, b in sides)
    return folder / "pairs.csv"


def text(result: dict[str, Any]) -> str:
    """The figures as a table for people."""
    rows = [
        (
            label,
            f"{each['seconds']:,.1f} s",
            f"{each['scored'] / each['steps']['scoring']:,.0f}",
            f"{each['encoded'] / each['steps']['encoding']:,.0f}" if each["encoded"] else "",
            f"{each['peak_bytes'] / 2**20:,.0f} MiB",
        )
        for label, each in result["runs"].items()
    ]
    said = "every output has the same bytes" if result["same_bytes"] else "THE OUTPUTS DIFFER"
    shown = format_table(("", "time", "pairs/s", "pictures/s", "memory"), rows)
    return "\n".join([result["processor"], f"{result['pairs']:,} pairs, model {result['model']}", shown, said])


def memory(process: int) -> int:
    """The bytes of memory that a process and its descendants hold, without files mapped into it (on Linux)."""
    total, waiting = 0, [process]
    while waiting:
        base = Path("/proc", str(waiting.pop()))
        try:
            lines = dict(line.split(":", 1) for line in (base / "status").read_text().splitlines())
            total += 1024 * int(lines.get("RssAnon", "0").split()[0])
            for task in (base / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # it ended meanwhile
    return total


def _variants(workers: Sequence[int], nodes: Sequence[int]) -> Iterator[tuple[str, list[str], int]]:
    yield "one process", [], 0
    for count in workers:
        yield f"--workers {count}", ["--workers", str(count)], 0
    for count in nodes:
        yield f"Ray, nodes: {count}", ["--engine", "ray"], count


def _scored(pairs: Path, output: Path, options: list[str]) -> dict[str, Any]:
    """One run to its end; the output's digest is kept, the output is not."""
    most = 0
    with _score(pairs, output, options) as process:
        while process.poll() is None:
            most = max(most, memory(process.pid))
            sleep(_LOOK)
        out, err = process.communicate()
    if process.returncode:
        raise BenchError(f"`diptych score {' '.join(options)}` ended with {process.returncode}: {out}{err}")
    found = json.loads(out)
    found = {name: found[name] for name in ("seconds", "pictures", "scored", "encoded", "steps")}
    found |= {"peak_bytes": most, "sha256": hash_file(output)}
    output.unlink()
    return found


def _killed(pairs: Path, output: Path, options: list[str]) -> dict[str, Any]:
    """A run that is killed when half of its parts are there, and the run that goes on."""
    parts = folder_of(output)
    with _score(pairs, output, options) as process:
        while process.poll() is None:
            if parts.exists() and (parts / "job.json").exists():
                sizes = json.loads((parts / "job.json").read_bytes())
                if len(list(parts.glob("pairs-*.part"))) * 2 >= sizes["rows"] / sizes["pairs_part"]:
                    break
            sleep(0.01)
        process.kill()
    if output.exists():
        raise BenchError("the run that was to be killed was over before; ask for more --pairs")
    return _scored(pairs, output, [*options, "--resume"])


def _score(pairs: Path, output: Path, options: list[str]) -> AbstractContextManager[subprocess.Popen[str]]:
    words = ["score", pairs, "-o", output, "--no-closer-look", "--json", *options]
    command = [sys.executable, "-P", "-m", "diptych", *words]
    return start_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def _cluster(nodes: int) -> Iterator[str | None]:
    """The address of a Ray cluster of so many nodes on this machine; without any, None."""
    if not nodes:
        yield None
        return
    command = [sys.executable, "-P", "-c", _NODES, str(nodes)]
    with start_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        address = process.stdout.readline().strip()
        if not address:
            raise BenchError("no Ray cluster could be started here; is it installed? pip install 'diptych[ray]'")
        try:
            yield address
        finally:
            process.stdin.close()
            process.wait()
