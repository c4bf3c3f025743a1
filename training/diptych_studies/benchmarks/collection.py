"""`diptych bench collection`: what a collection of many pictures costs here, to fill, to open and to search.

Every part runs in a process of its own, through the ordinary command line and library, so that its memory is its own.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from PIL import Image

from diptych.bench.command import read_peak_bytes, run_with_peak
from diptych.bench.demo.collection import draw_scenes
from diptych.bench.demo.edits import edit_copy
from diptych.bench.model import drop_from_cache, find_processor
from diptych.collection.collection import Collection
from diptych.console import QUIET, Console, format_table
from diptych.errors import BenchError
from diptych.scoring.scorer import Scorer
from diptych.store.sqlite.index_cache import CACHE, MANIFEST
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.folders import pictures_below
from diptych_studies.benchmarks.command import run_process

CANDIDATES, QUERIES = 100, 300
SIDES = (96, 160)  # pixels, of a picture's longer side

_CUTS = 50  # pictures that are cut out of one drawn scene
_CALL = """
import json, sys
from pathlib import Path
from diptych_studies.benchmarks import collection
Path(sys.argv[1]).write_text(json.dumps(getattr(collection, sys.argv[2])(*sys.argv[3:])))
"""


def measure_collection(
    folder: Path,
    count: int,
    model: str,
    console: Console = QUIET,
) -> dict[str, Any]:
    """Measure a collection of `count` pictures drawn into `folder`. Raises BenchError if a part fails."""
    photos, store = folder / "photos", folder / "store"
    photos.mkdir()
    console.remark(f"drawing {count:,} pictures ...")
    with console.progress(total=count, unit="picture", desc="drawing") as bar:
        for number, picture in enumerate(draw_cuts(count, 0)):
            place = photos / f"{number // 1000:04d}"
            place.mkdir(exist_ok=True)
            picture.save(place / f"{number % 1000:03d}.jpg", "JPEG", quality=85)
            bar.update()
    console.remark("adding them ...")
    result = {
        "count": count,
        "model": model,
        "processor": find_processor(),
        "add": measure_adding(photos, store, model),
    }
    console.remark("opening and searching ...")
    result["sizes"] = {name: (store / name).stat().st_size for name in (DATABASE, CACHE)}
    result["search"] = _call_in_process("measure_searches", photos, store, model)
    data = bytearray((store / CACHE).read_bytes())
    data[len(data) // 2] ^= 1
    result["open"] = {"valid": _call_in_process("measure_opening", store, model)}
    (store / CACHE).write_bytes(data)
    result["open"]["damaged"] = _call_in_process("measure_opening", store, model)
    for name in (CACHE, MANIFEST):
        (store / name).unlink()
    result["open"]["missing"] = _call_in_process("measure_opening", store, model)
    return result


def draw_cuts(count: int, seed: int) -> Iterator[Image.Image]:
    """Draw `count` small pictures, no two alike: parts of scenes, every third edited."""
    random = np.random.default_rng([seed, 9])
    for number, scene in enumerate(draw_scenes(-(-count // _CUTS), seed)):
        for _ in range(min(_CUTS, count - number * _CUTS)):
            share = random.uniform(0.3, 0.9, 2)
            width, height = np.maximum(share * scene.size, 32).astype(int).tolist()
            left, top = (int(random.integers(room + 1)) for room in (scene.width - width, scene.height - height))
            side = int(random.integers(SIDES[0], SIDES[1] + 1))
            scale = side / max(width, height)
            size = (max(8, round(width * scale)), max(8, round(height * scale)))
            picture = scene.resize(size, Image.Resampling.BILINEAR, (left, top, left + width, top + height))
            yield edit_copy(picture, random) if random.random() < 1 / 3 else picture


def measure_adding(photos: Path, store: Path, model: str) -> dict[str, float]:
    """Measure `diptych index add`: seconds with its start, peak bytes, and pictures added."""
    began = perf_counter()
    told, most = run_with_peak("index", "add", photos, "--store", store, "--model", model, "--json")
    return {"pictures": json.loads(told)["total"], "seconds": perf_counter() - began, "peak_bytes": most}


def measure_opening(store: str, model: str) -> dict[str, float]:
    """Measure the seconds and peak bytes of opening a collection that nothing is remembered of.

    Those of opening the model are left out.
    """
    scorer = Scorer.load(model)
    for path in Path(store).iterdir():
        drop_from_cache(path)
    began = perf_counter()
    with Collection.open(store, scorer, read_only=True):
        return {"seconds": perf_counter() - began, "peak_bytes": read_peak_bytes()}


def measure_searches(photos: str, store: str, model: str) -> dict[str, Any]:
    """Measure searches for edited copies, one after the other: milliseconds by stage, with 100 candidates."""
    random = np.random.default_rng(1)
    names = sorted(path for path in pictures_below(Path(photos)) if path.suffix == ".jpg")
    chosen = [names[place] for place in random.permutation(len(names))[:QUERIES]]
    with Collection.open(store, Scorer.load(model), read_only=True) as collection:
        index = collection.backend.index_facts()
        seconds: dict[str, list[float]] = {"whole": []}
        for number, path in enumerate([chosen[0], *chosen]):
            with Image.open(path) as picture:
                query = edit_copy(picture.convert("RGB"), random)
            began = perf_counter()
            found = collection.search(query, candidates=CANDIDATES)
            took = {"whole": perf_counter() - began, **found.timings}
            if number:  # the first warms up
                for stage, value in took.items():
                    seconds.setdefault(stage, []).append(value)
    stages = {
        stage: [round(float(v) * 1000, 3) for v in np.percentile(each, [50, 99])] for stage, each in seconds.items()
    }
    return {"milliseconds": stages, "peak_bytes": read_peak_bytes(), "index": index}


def format_figures(result: dict[str, Any]) -> str:
    """Format the figures as a table for people."""
    added, searched, opened = result["add"], result["search"], result["open"]
    rate = added["pictures"] / added["seconds"]
    rows = [
        ("adding", f"{added['seconds']:,.0f} s", f"{rate:,.0f} pictures/s", _format_mib(added["peak_bytes"])),
        *(
            (
                f"a search, {CANDIDATES} candidates" if stage == "whole" else f"  {stage}",
                f"{half:.1f} ms",
                f"p99 {most:.1f} ms",
                "",
            )
            for stage, (half, most) in searched["milliseconds"].items()
        ),
        ("searching", "", "", _format_mib(searched["peak_bytes"])),
        *(
            (f"opening, cache {state}", f"{each['seconds']:.2f} s", "", _format_mib(each["peak_bytes"]))
            for state, each in opened.items()
        ),
        *((name, "", "", _format_mib(size)) for name, size in result["sizes"].items()),
    ]
    head = f"{added['pictures']:,} pictures, model {result['model']}, index {searched['index']['kind']}"
    return "\n".join([result["processor"], head, format_table(("", "time", "", "memory or size"), rows)])


def _format_mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _call_in_process(function: str, *arguments: object) -> Any:
    """Call one of this file's functions with texts, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        done = run_process([sys.executable, "-P", "-c", _CALL, told, function, *arguments])
        if done.returncode:
            raise BenchError(f"{function} failed: {done.stderr.decode(errors='replace').strip()}")
        return json.loads(told.read_text())
