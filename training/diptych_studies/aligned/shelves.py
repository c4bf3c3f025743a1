"""Pairs kept on the disk, from where training maps them into memory: of a source each, made once and side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from diptych_runtime.atomic import replacing_folder
from diptych_studies.aligned.pairs import AlignedPair, document_pairs, photo_pairs
from diptych_studies.aligned.things import printed_photos, thing_pairs
from diptych_training.workers import worker_pool

PIXELS, ROWS = "pixels.bin", "pairs.json"
FAMILIES, THINGS = 50, 100  # of documents, and things, in a source

Source = Callable[[], Iterator[AlignedPair]]


@dataclass(frozen=True)
class Origins:
    """The origins of the pairs: `families` of four drawn documents of one layout; up to `photos` training photos of
    each of the `archives`, with their nearest among each other; and `things` printed with some of them, seen again.
    """

    families: int = 1200
    photos: int = 1000
    things: int = 0
    archives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.families, self.things) < 0 or self.photos < 2:
            raise ValueError(
                f"[aligned] needs families and things of 0 or more, and photos of 2 or more, got {self.families}, "
                f"{self.things} and {self.photos}"
            )
        if not self.archives and (self.things or not self.families):
            raise ValueError("[aligned] needs archives: of their photos are things, and all pairs without families")


@dataclass(frozen=True)
class KeptPair:
    """A pair whose `pixels` uint8 (h, w, 7) are mapped from the disk: both pictures, and 1 where both are shown."""

    pixels: np.ndarray
    copy: bool
    kind: str


def sources_of(origins: Origins, seed: int, folder: Path | None) -> dict[str, Source]:
    """The sources of the pairs by name: archives, which take longest, first."""
    sources: dict[str, Source] = {}
    if folder is not None:
        for archive in origins.archives:
            sources[archive] = partial(photo_pairs, archive, origins.photos, seed, folder)
        for begin in range(0, origins.things, THINGS):
            end = min(begin + THINGS, origins.things)
            sources[f"things-{begin:05d}"] = partial(_pair_things, begin, end, origins.archives, seed, folder)
    for begin in range(0, origins.families, FAMILIES):
        end = min(begin + FAMILIES, origins.families)
        sources[f"documents-{begin:05d}"] = partial(pair_documents, begin, end, seed)
    return sources


def _pair_things(begin: int, end: int, archives: tuple[str, ...], seed: int, folder: Path) -> Iterator[AlignedPair]:
    return thing_pairs(begin, end, printed_photos(archives, seed, folder), seed)


def pair_documents(begin: int, end: int, seed: int) -> Iterator[AlignedPair]:
    """The pairs of the families of documents with these numbers, the last one left out."""
    return chain.from_iterable(document_pairs(family, seed) for family in range(begin, end))


def make_shelves(sources: Mapping[str, Source], directory: Path, *, processes: int, tick: Callable[[], object]) -> None:
    """Make the pairs of the sources that `directory` lacks, in so many processes of one thread each; `tick` is called
    for each source that is there. What a run left unfinished is removed: no other one writes there.
    """
    missing = [name for name in sources if not (directory / name).is_dir()]
    for _ in range(len(sources) - len(missing)):
        tick()
    if not missing:
        return
    for unfinished in directory.glob(".*-*"):
        shutil.rmtree(unfinished)
    with worker_pool(min(processes, len(missing))) as pool:
        futures = [pool.submit(_make_shelf, sources[name], directory / name) for name in missing]
        for future in as_completed(futures):
            future.result()
            tick()


def _make_shelf(source: Source, target: Path) -> None:
    """Write one file of all pixels, and one of the shapes and labels."""
    rows = []
    with replacing_folder(target) as fresh, (fresh / PIXELS).open("wb") as file:
        for pair in source():
            laid = pair.laid
            whole = np.concatenate([laid.a, laid.b, laid.shown[..., None].astype(np.uint8)], -1)
            file.write(np.ascontiguousarray(whole).tobytes())
            rows.append({"shape": whole.shape, "copy": pair.copy, "kind": pair.kind})
        (fresh / ROWS).write_text(json.dumps(rows))


def read_shelf(shelf: Path) -> list[KeptPair]:
    """The pairs of a source, in their order."""
    rows = json.loads((shelf / ROWS).read_text())
    if not rows:
        return []
    pixels = np.memmap(shelf / PIXELS, np.uint8, "r")
    sizes = [int(np.prod(row["shape"])) for row in rows]
    return [
        KeptPair(pixels[end - size : end].reshape(row["shape"]), row["copy"], row["kind"])
        for row, size, end in zip(rows, sizes, np.cumsum(sizes).tolist(), strict=True)
    ]
