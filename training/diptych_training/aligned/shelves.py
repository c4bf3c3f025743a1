"""Pairs kept on the disk, from where training maps them into memory: of a source each, made once and side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from diptych_runtime.atomic import replacing_folder
from diptych_training.aligned.pairs import AlignedPair, document_pairs, photo_pairs
from diptych_training.aligned.things import printed_photos, thing_pairs
from diptych_training.workers import worker_pool

PIXELS, ROWS = "pixels.bin", "pairs.json"
FAMILIES, THINGS = 50, 100  # of documents, and things, in a source


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
class Source:
    """A source of pairs: the drawn `families` or `things` from one number up to another, things printed with photos of
    the `archives`; or the photos of an `archive`.
    """

    name: str
    families: tuple[int, int] = (0, 0)
    things: tuple[int, int] = (0, 0)
    archives: tuple[str, ...] = ()
    archive: str = ""


@dataclass(frozen=True)
class KeptPair:
    """A pair whose `pixels` uint8 (h, w, 7) are mapped from the disk: both pictures, and 1 where both are shown."""

    pixels: np.ndarray
    copy: bool
    kind: str


def sources_of(origins: Origins) -> list[Source]:
    """The sources of the pairs: archives, which take longest, first."""
    documents = [
        Source(f"documents-{begin:05d}", (begin, min(begin + FAMILIES, origins.families)))
        for begin in range(0, origins.families, FAMILIES)
    ]
    things = [
        Source(f"things-{begin:05d}", things=(begin, min(begin + THINGS, origins.things)), archives=origins.archives)
        for begin in range(0, origins.things, THINGS)
    ]
    return [*(Source(archive, archive=archive) for archive in origins.archives), *things, *documents]


def make_shelves(
    sources: Sequence[Source],
    directory: Path,
    *,
    photos: int,
    seed: int,
    folder: Path | None,
    processes: int,
    tick: Callable[[], object],
) -> None:
    """Make the pairs of the sources that `directory` lacks, in so many processes of one thread each; `tick` is called
    for each source that is there. What a run left unfinished is removed: no other one writes there.
    """
    missing = [source for source in sources if not (directory / source.name).is_dir()]
    for _ in range(len(sources) - len(missing)):
        tick()
    if not missing:
        return
    for unfinished in directory.glob(".*-*"):
        shutil.rmtree(unfinished)
    with worker_pool(min(processes, len(missing))) as pool:
        futures = [pool.submit(_make_shelf, source, directory, photos, seed, folder) for source in missing]
        for future in as_completed(futures):
            future.result()
            tick()


def _make_shelf(source: Source, directory: Path, photos: int, seed: int, folder: Path | None) -> None:
    if source.archive:
        assert folder is not None
        pairs: Iterable[AlignedPair] = photo_pairs(source.archive, photos, seed, folder)
    elif source.archives:
        assert folder is not None
        pairs = thing_pairs(*source.things, printed_photos(source.archives, seed, folder), seed)
    else:
        pairs = chain.from_iterable(document_pairs(family, seed) for family in range(*source.families))
    with replacing_folder(directory / source.name) as fresh:
        _write_shelf(fresh, pairs)


def _write_shelf(target: Path, pairs: Iterable[AlignedPair]) -> None:
    """One file of all pixels, and one of the shapes and labels."""
    rows = []
    with (target / PIXELS).open("wb") as file:
        for pair in pairs:
            laid = pair.laid
            whole = np.concatenate([laid.a, laid.b, laid.shown[..., None].astype(np.uint8)], -1)
            file.write(np.ascontiguousarray(whole).tobytes())
            rows.append({"shape": whole.shape, "copy": pair.copy, "kind": pair.kind})
    (target / ROWS).write_text(json.dumps(rows))


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
