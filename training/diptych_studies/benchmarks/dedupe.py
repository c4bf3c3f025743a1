"""`diptych bench dedupe`: photos and edits of them made on the spot, what finding the groups costs and what they are
worth, beside perceptual hashes on the same files.

Every run of a command is a process of its own, with the model loaded anew, as people run it.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import comb
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from diptych.bench.model import find_processor
from diptych.console import format_count, format_table
from diptych.dedupe.groups import group_items, matches_of
from diptych.dedupe.keeper import preference_order
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.scan import list_picture_files, resolve_folders
from diptych.errors import BenchError
from diptych.pictures.file_info import Picture
from diptych.scoring.threads import map_pictures
from diptych_runtime.decoder import open_picture
from diptych_runtime.errors import PictureError
from diptych_runtime.manifest import Manifest
from diptych_runtime.models import find_artifact
from diptych_runtime.session import thread_count
from diptych_studies.benchmarks.command import run_command

EACH = 6  # pictures of one photo, itself among them
THRESHOLDS = ("auto", "0.95", "0.9", "0.7")
# name: (imagehash's function, its size, bits that may differ). imagededup's PHash and DHash have 64 bits and 10 by
# default; czkawka's gradient hash is a difference hash, with tolerances by size for its presets, Very High to Minimal.
HASHES = {
    "imagededup's PHash": ("phash", 8, (0, 4, 10)),
    "imagededup's DHash": ("dhash", 8, (10,)),
    "czkawka's gradient 8x8": ("dhash", 8, (1, 2, 5, 7, 14)),
    "czkawka's gradient 16x16": ("dhash", 16, (2, 5, 15, 30, 40)),
}
_ROWS = 256  # of the matrix of distances at a time


def measure(
    folder: Path, photos: Path, count: int, model: str = "photo", say: Callable[[str], object] = lambda _: None
) -> dict[str, Any]:
    """The figures for `text`, measured on `count` pictures in `folder`: photos of another one, and copies of them.

    Raises BenchError if there are too few photos or a command fails.
    """
    pictures, store = folder / "pictures", folder / "store"
    say(f"making {count:,} pictures ...")
    truth = _make(photos, pictures, count)
    result: dict[str, Any] = {
        "count": count,
        "photos": len(set(truth.values())),
        "processor": find_processor(),
        "rows": [],
    }
    result |= {"model": model, "seconds": {}}

    def dedupe(threshold: str) -> tuple[float, dict[str, Any], list[list[str]]]:
        output = folder / "groups.csv"
        began = perf_counter()
        options = ("--store", store, "--model", model, "--threshold", threshold, "-o", output, "--json")
        told = run_command("dedupe", pictures, *options)
        return perf_counter() - began, json.loads(told), _groups(output)

    for number, threshold in enumerate(THRESHOLDS):
        say(f"diptych dedupe --threshold {threshold} ...")
        seconds, told, groups = dedupe(threshold)
        if not number:
            result["seconds"]["all new"], result["pairs"] = seconds, told["pairs"]
        setting = f"auto, {told['threshold']:.5f}" if threshold == "auto" else threshold
        row = {"method": "diptych", "setting": setting, "seconds": result["seconds"]["all new"]}
        result["rows"].append(row | figures(groups, truth))
    result["seconds"]["nothing new"] = dedupe("auto")[0]
    say("hashes ...")
    revision = Manifest.load(find_artifact(model)).revision
    with PairCache(store / LEDGER, revision) as ledger:
        known = ledger.get_files([str(pictures)])
    ordered = [known[path].picture for path in sorted(known)]
    for name, tolerance, seconds, groups in measure_hashes(ordered, thread_count()):
        row = {"method": name, "setting": f"{tolerance} bits", "seconds": seconds}
        result["rows"].append(row | figures(groups, truth))
    more = max(1, count // 100)
    say(f"{more:,} more ...")
    run_command("edit", pictures / "photos", "-o", pictures / "more", "--count", more, "--seed", 99)
    result["more"], result["seconds"]["some new"] = more, dedupe("auto")[0]
    return result


def text(result: dict[str, Any]) -> str:
    """The figures as tables for people."""
    seconds = result["seconds"]
    rows = [
        (
            *(row["method"], row["setting"], f"{row['seconds']:.0f}", f"{row['groups']:,}", f"{row['could_go']:,}"),
            *(f"{row['wrong']:,}", f"{row['wrong_share']:.2%}", f"{row['pair_precision']:.3f}"),
            *(f"{row['pair_recall']:.3f}", f"{row['to_original']:.3f}"),
        )
        for row in result["rows"]
    ]
    head = ("", "setting", "s", "groups", "removable", "wrong", "", "pairs: precision", "recall", "with original")
    return "\n".join(
        [
            result["processor"],
            f"{result['count']:,} pictures of {format_count(result['photos'], 'photo')}, model {result['model']}; "
            f"{format_count(result['pairs'], 'pair')} scored",
            f"all of them new {seconds['all new']:.1f} s, nothing new {seconds['nothing new']:.1f} s, "
            f"{result['more']:,} new {seconds['some new']:.1f} s",
            format_table(head, rows),
        ]
    )


def _make(photos: Path, pictures: Path, count: int) -> dict[str, str]:
    """Copy photos, write edits of them until there are `count` pictures, and return the original of each by path."""
    (root,) = resolve_folders([photos])
    names = [file.path for file in list_picture_files([root], lambda path, reason: None)]
    wanted = min(len(names), max(1, count // EACH))
    originals = pictures / "photos"
    originals.mkdir(parents=True)
    truth: dict[str, str] = {}
    for number, place in enumerate(np.random.default_rng(0).permutation(len(names))[:wanted].tolist()):
        copy = originals / f"{number:05d}{Path(names[place]).suffix.lower()}"
        shutil.copy2(names[place], copy)
        truth[str(copy)] = str(copy)
    seed = 0
    while len(truth) < count:
        target, seed = pictures / f"edits-{seed}", seed + 1
        some = min(wanted, count - len(truth))
        run_command("edit", originals, "-o", target, "--count", some, "--seed", seed)
        with (target / "truth.csv").open(newline="") as file:
            truth |= {str(target / row["query"]): str(originals / row["reference"]) for row in csv.DictReader(file)}
    return truth


def _groups(path: Path) -> list[list[str]]:
    """The groups of a table, the keeper first."""
    groups: dict[str, list[str]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            groups.setdefault(row["group"], []).append(row["path"])
    return list(groups.values())


def figures(groups: Sequence[Sequence[str]], truth: Mapping[str, str]) -> dict[str, Any]:
    """Precision and recall of groups of names, the keeper first; `truth` has the original of every name.

    `pairs` are all within a group, of those that have one original; `wrong` counts pictures that would go though their
    keeper shows another photo; `to_original` is the share of copies that are in their original's group.
    """
    place = {name: number for number, group in enumerate(groups) for name in group}
    inside = sum(comb(len(group), 2) for group in groups)
    right = sum(comb(n, 2) for group in groups for n in Counter(truth[name] for name in group).values())
    possible = sum(comb(n, 2) for n in Counter(truth.values()).values())
    going = sum(len(group) - 1 for group in groups)
    wrong = sum(truth[name] != truth[keeper] for keeper, *others in groups for name in others)
    copies = [(name, original) for name, original in truth.items() if name != original]
    found = sum(name in place and place[name] == place.get(original) for name, original in copies)
    return {
        "groups": len(groups),
        "could_go": going,
        "wrong": wrong,
        "wrong_share": wrong / going if going else 0.0,
        "pair_precision": right / inside if inside else 1.0,
        "pair_recall": right / possible if possible else 1.0,
        "to_original": found / len(copies) if copies else 1.0,
    }


def measure_hashes(pictures: Sequence[Picture], threads: int) -> Iterator[tuple[str, int, float, list[list[str]]]]:
    """(hash, bits that may differ, seconds, groups of paths) of every hash at every tolerance.

    Groups are made by our own rule, keepers first, so that only the hash is compared. Raises BenchError.
    """
    try:
        import imagehash
    except ImportError:
        raise BenchError("hashes need imagehash; install it with `pip install 'diptych[evaluate]'`") from None
    made: dict[tuple[str, int], tuple[np.ndarray, float]] = {}
    order = preference_order(pictures)
    for name, (function, size, tolerances) in HASHES.items():
        if (function, size) not in made:
            began = perf_counter()
            work = partial(_hash_picture, function=getattr(imagehash, function), size=size)
            hashes = map_pictures(work, [picture.path for picture in pictures], threads)
            bits = [np.zeros(size * size, bool) if isinstance(one, PictureError) else one for one in hashes]
            made[function, size] = np.packbits(np.stack(bits), 1).view(np.uint64), perf_counter() - began
        words, seconds = made[function, size]
        for tolerance in tolerances:
            began = perf_counter()
            pairs = close_pairs(words, tolerance)
            matches = matches_of(pairs, [1.0] * len(pairs), 1.0)
            groups = [[pictures[place].path for place in group] for group in group_items(order, matches, 1.0)]
            yield name, tolerance, seconds + perf_counter() - began, groups


def close_pairs(words: np.ndarray, tolerance: int) -> list[tuple[int, int]]:
    """Pairs first < second of hashes uint64 (n, w) that differ in at most so many bits."""
    found = []
    for start in range(0, len(words), _ROWS):
        rows = words[start : start + _ROWS]
        distance = sum(
            np.bitwise_count(rows[:, None, word] ^ words[None, :, word]).astype(np.uint16)
            for word in range(words.shape[1])
        )
        first, second = np.nonzero(np.asarray(distance) <= tolerance)
        later = second > first + start
        found += zip((first[later] + start).tolist(), second[later].tolist(), strict=True)
    return found


def _hash_picture(path: str, function: Any, size: int) -> np.ndarray:
    return function(open_picture(path), size).hash.ravel()
