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

from diptych.bench.command import peak, run_process, run_with_peak
from diptych.bench.demo.collection import draw_scenes
from diptych.bench.demo.edits import edit_copy
from diptych.bench.model import drop_from_cache, processor
from diptych.collection.collection import Collection
from diptych.console import QUIET, Console, format_table
from diptych.errors import BenchError
from diptych.scoring.scorer import Scorer
from diptych.store.index.cache import CACHE, MANIFEST
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.folders import pictures_below

CANDIDATES, QUERIES = 100, 300
SIDES = (96, 160)  # pixels, of a picture's longer side

_CUTS = 50  # pictures that are cut out of one drawn scene
_CALL = """
import json, sys
from pathlib import Path
from diptych.bench import collection
Path(sys.argv[1]).write_text(json.dumps(getattr(collection, sys.argv[2])(*sys.argv[3:])))
"""


def measure(
    folder: Path,
    count: int,
    model: str,
    console: Console = QUIET,
) -> dict[str, Any]:
    """The figures for `text`, measured on `count` pictures drawn into `folder`. Raises BenchError if a part fails."""
    photos, store = folder / "photos", folder / "store"
    photos.mkdir()
    console.remark(f"drawing {count:,} pictures ...")
    with console.progress(total=count, unit="picture", desc="drawing") as bar:
        for number, picture in enumerate(cuts(count, 0)):
            place = photos / f"{number // 1000:04d}"
            place.mkdir(exist_ok=True)
            picture.save(place / f"{number % 1000:03d}.jpg", "JPEG", quality=85)
            bar.update()
    console.remark("adding them ...")
    result = {"count": count, "model": model, "processor": processor(), "add": add(photos, store, model)}
    console.remark("opening and searching ...")
    result["sizes"] = {name: (store / name).stat().st_size for name in (DATABASE, CACHE)}
    result["search"] = _child("search", photos, store, model)
    data = bytearray((store / CACHE).read_bytes())
    data[len(data) // 2] ^= 1
    result["open"] = {"valid": _child("start", store, model)}
    (store / CACHE).write_bytes(data)
    result["open"]["damaged"] = _child("start", store, model)
    for name in (CACHE, MANIFEST):
        (store / name).unlink()
    result["open"]["missing"] = _child("start", store, model)
    return result


def cuts(count: int, seed: int) -> Iterator[Image.Image]:
    """`count` small pictures, no two alike: parts of drawn scenes, every third of them edited."""
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


def add(photos: Path, store: Path, model: str) -> dict[str, float]:
    """Seconds and peak bytes of `diptych index add`, its start among them, and the pictures it added."""
    began = perf_counter()
    told, most = run_with_peak("index", "add", photos, "--store", store, "--model", model, "--json")
    return {"pictures": json.loads(told)["total"], "seconds": perf_counter() - began, "peak_bytes": most}


def start(store: str, model: str) -> dict[str, float]:
    """Seconds to open a collection that nothing is remembered of, without those for the model, and its peak bytes."""
    scorer = Scorer.load(model)
    for path in Path(store).iterdir():
        drop_from_cache(path)
    began = perf_counter()
    with Collection.open(store, scorer, read_only=True):
        return {"seconds": perf_counter() - began, "peak_bytes": peak()}


def search(photos: str, store: str, model: str) -> dict[str, Any]:
    """Milliseconds of searches with 100 candidates, one after the other, by stage; edited copies are looked for."""
    random = np.random.default_rng(1)
    names = sorted(path for path in pictures_below(Path(photos)) if path.suffix == ".jpg")
    chosen = [names[place] for place in random.permutation(len(names))[:QUERIES]]
    with Collection.open(store, Scorer.load(model), read_only=True) as collection:
        layout = collection.index.layout()
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
    return {"milliseconds": stages, "peak_bytes": peak(), "index": layout}


def text(result: dict[str, Any]) -> str:
    """The figures as a table for people."""
    added, searched, opened = result["add"], result["search"], result["open"]
    rate = added["pictures"] / added["seconds"]
    rows = [
        ("adding", f"{added['seconds']:,.0f} s", f"{rate:,.0f} pictures/s", _mib(added["peak_bytes"])),
        *(
            (
                f"a search, {CANDIDATES} candidates" if stage == "whole" else f"  {stage}",
                f"{half:.1f} ms",
                f"p99 {most:.1f} ms",
                "",
            )
            for stage, (half, most) in searched["milliseconds"].items()
        ),
        ("searching", "", "", _mib(searched["peak_bytes"])),
        *(
            (f"opening, cache {state}", f"{each['seconds']:.2f} s", "", _mib(each["peak_bytes"]))
            for state, each in opened.items()
        ),
        *((name, "", "", _mib(size)) for name, size in result["sizes"].items()),
    ]
    head = f"{added['pictures']:,} pictures, model {result['model']}, index {searched['index']['kind']}"
    return "\n".join([result["processor"], head, format_table(("", "time", "", "memory or size"), rows)])


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _child(function: str, *arguments: object) -> Any:
    """The value of one of this file's functions, called with texts in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        done = run_process([sys.executable, "-P", "-c", _CALL, told, function, *arguments])
        if done.returncode:
            raise BenchError(f"{function} failed: {done.stderr.decode(errors='replace').strip()}")
        return json.loads(told.read_text())
