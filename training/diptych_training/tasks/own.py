"""Your own pictures: a folder a class, a CSV of path and class, or a CSV of labelled pairs."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Generator

from diptych_export.errors import PictureError
from diptych_export.pictures import panel_pixels
from diptych_training.augment import MILD, SHOT, draw_sprites, edit
from diptych_training.errors import DataError
from diptych_training.exam import Exam
from diptych_training.mining import nearest
from diptych_training.photos import split_of
from diptych_training.tables import read_table
from diptych_training.tasks.task import Embed, Part, Source

HELD_OUT = 0.2
LABELS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
HOLD_OUT = ("classes", "pictures")
NEIGHBOURS = 8


@dataclass(frozen=True)
class Classes:
    """`queries` pictures a step, each against another of its class; judged by recall@1 on what is held out.

    `pictures` is a folder with a folder for each class, or a CSV with the columns path and class (paths count from
    `root`, or from the CSV's own folder). A fifth is held out: whole *classes*, if what matters are classes that come
    later, or *pictures* of every class.
    """

    pictures: str
    root: str = ""
    queries: int = 32
    hold_out: str = "pictures"
    weight: float = 1.0
    calibrated: bool = True
    kind: str = field(default="classes", init=False)

    def __post_init__(self) -> None:
        if self.hold_out not in HOLD_OUT:
            raise ValueError(f"hold_out must be one of {', '.join(HOLD_OUT)}, got {self.hold_out!r}")

    def open(self, source: Source) -> "Pictures":
        """Read the list and the pictures."""
        paths, names = self._listed()
        subject = np.unique(names, return_inverse=True)[1]
        keys = names if self.hold_out == "classes" else [str(path) for path in paths]
        held_out = np.array([split_of(key, validation=HELD_OUT, test=0.0) == "validation" for key in keys])
        held_out = _at_least_some(held_out, subject, whole=self.hold_out == "classes")
        return Pictures(self.queries, source, _read(paths, source), subject, held_out)

    def _listed(self) -> tuple[list[Path], list[str]]:
        place = Path(self.pictures)
        if place.is_dir():
            files = sorted(path for folder in sorted(place.iterdir()) if folder.is_dir() for path in folder.iterdir())
            paths = [path for path in files if path.is_file() and not path.name.startswith(".")]
            names = [path.parent.name for path in paths]
        else:
            root = Path(self.root) if self.root else place.parent
            rows = read_table(place, ["path", "class"])
            paths, names = [root / row["path"] for row in rows], [row["class"] for row in rows]
        if len(set(names)) < 2:
            raise DataError(
                f"{place} has pictures of {len(set(names))} classes, and two at least are needed: give a folder with a "
                "folder for each class, or a CSV with the columns path and class"
            )
        return paths, names


@dataclass(frozen=True)
class Pairs:
    """Labelled pairs: `table` is a CSV with the columns image_a, image_b and label (1 where they show the same, else
    0), its paths counting from `root`, or from the CSV's own folder.

    What pairs of label 1 connect counts as one thing; two pictures of different things are rivals, those of label 0
    above all. A fifth of the things is held out; judged by recall@1.
    """

    table: str
    root: str = ""
    queries: int = 32
    weight: float = 1.0
    calibrated: bool = True
    kind: str = field(default="pairs", init=False)

    def open(self, source: Source) -> "Pictures":
        """Read the pairs and their pictures."""
        rows = read_table(Path(self.table), ["image_a", "image_b", "label"])
        root = Path(self.root) if self.root else Path(self.table).parent
        place: dict[str, int] = {}
        for row in rows:
            for name in (row["image_a"], row["image_b"]):
                place.setdefault(name, len(place))
        apart: dict[int, list[int]] = {}
        subject = np.arange(len(place))
        for number, row in enumerate(rows, 2):
            label = LABELS.get(row["label"].strip().lower())
            if label is None:
                raise DataError(f"{self.table}, line {number}: label must be 1 or 0, got {row['label']!r}")
            a, b = place[row["image_a"]], place[row["image_b"]]
            if label:
                subject[subject == subject[b]] = subject[a]
            else:
                apart.setdefault(a, []).append(b)
                apart.setdefault(b, []).append(a)
        if len(np.unique(subject)) == len(place):
            raise DataError(
                f"{self.table} has no pair of two pictures with label 1: nothing to learn what is alike from"
            )
        held_out = np.array([split_of(f"thing {s}", validation=HELD_OUT, test=0.0) == "validation" for s in subject])
        held_out = _at_least_some(held_out, subject, whole=True)
        return Pictures(self.queries, source, _read([root / name for name in place], source), subject, held_out, apart)


class Pictures:
    """Pictures of known things: `subject` (n,) numbers them, `held_out` (n,) bool is what is not learnt from, `apart`
    names for a picture those that are said to be something else.
    """

    def __init__(
        self,
        queries: int,
        source: Source,
        pixels: np.ndarray,
        subject: np.ndarray,
        held_out: np.ndarray,
        apart: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.queries, self.source, self.subject, self.held_out = queries, source, subject, held_out
        self.pixels, self.apart = torch.from_numpy(pixels).to(source.device), apart or {}
        learnt = np.bincount(subject[~held_out], minlength=subject.max() + 1)
        self.asking = np.flatnonzero(~held_out & (learnt[subject] > 1))
        if not len(self.asking):
            raise DataError(
                "no two pictures of one class are left to learn from once a fifth is held out: bring more of each"
            )
        self.sprites = draw_sprites(64, source.seed).to(source.device)
        self.neighbours: np.ndarray | None = None

    def draw(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Pictures and others of their class, and what mining or a label of 0 says is not the same though alike."""
        count = min(max(2, round(self.queries * fill)), len(self.asking))
        # Classes first, pictures second: a class of a thousand does not drown one of ten.
        by_class = rng.permutation(np.unique(self.subject[self.asking]))
        chosen = np.array([rng.choice(self.asking[self.subject[self.asking] == s]) for s in np.resize(by_class, count)])
        kin = [self.asking[(self.subject[self.asking] == self.subject[i]) & (self.asking != i)] for i in chosen]
        other = np.array([rng.choice(members) for members in kin])
        rivals = [self._rival(rng, i) for i in chosen]
        shown = np.concatenate([other, np.array([r for r in rivals if r is not None], np.int64)])
        size = self.source.pixels
        queries = edit(self.pixels[torch.from_numpy(chosen)], size, SHOT, generator, self.sprites)
        references = edit(self.pixels[torch.from_numpy(shown)], size, MILD, generator, self.sprites)
        match = self.subject[chosen][:, None] == self.subject[shown][None, :]
        return Part(queries, references, match, ~match)

    def mine(self, embed: Embed) -> None:
        """Find what is alike and not the same."""
        self.neighbours = nearest(embed(self.pixels), self.subject, NEIGHBOURS)

    def exam(self, *, whole: bool = False) -> Exam:
        """What is held out among all pictures, the query itself left out."""
        asked = np.flatnonzero(self.held_out & (np.bincount(self.subject)[self.subject] > 1))
        relevant = self.subject[asked][:, None] == self.subject[None, :]
        relevant[np.arange(len(asked)), asked] = False
        pixels = self.pixels.cpu()
        return Exam(pixels[torch.from_numpy(asked)], pixels, relevant, "recall@1", itself=asked)

    def _rival(self, rng: np.random.Generator, i: int) -> int | None:
        """One picture that is surely another thing: by its label, or by mining."""
        labelled = [j for j in self.apart.get(int(i), []) if not self.held_out[j]]
        if labelled:
            return int(rng.choice(labelled))
        if self.neighbours is None:
            return None
        near = [j for j in self.neighbours[i] if not self.held_out[j]]
        return int(rng.choice(near)) if near else None


def _at_least_some(held_out: np.ndarray, subject: np.ndarray, *, whole: bool) -> np.ndarray:
    """Chance may have held out nothing, or too much: then every fifth class, or every fifth picture of each, is."""
    classes = np.unique(subject)
    if whole:
        out = np.unique(subject[held_out])
        if not 0 < len(out) <= max(1, len(classes) // 2):
            held_out = np.isin(subject, classes[::5][: max(1, len(classes) // 2)])
        return held_out
    for one in classes:
        members = np.flatnonzero(subject == one)
        if held_out[members].mean() > 0.5 or (len(members) > 2 and not held_out[members].any()):
            held_out[members] = False
            held_out[members[2::5]] = True
    return held_out


def _read(paths: list[Path], source: Source) -> np.ndarray:
    """Decode pictures into panels a little larger than the stage's; every one that fails is named in one error."""
    size = source.archives.size

    def read(path: Path) -> np.ndarray | str:
        try:
            return panel_pixels(path, size)
        except (PictureError, OSError) as error:
            return f"{os.fspath(path)}: {error}"

    with ThreadPoolExecutor(2) as pool:
        panels = list(pool.map(read, paths))
    failed = [panel for panel in panels if isinstance(panel, str)]
    if failed:
        shown = "\n".join(failed[:5])
        raise DataError(f"{len(failed)} of {len(paths)} pictures cannot be read; mend or remove them:\n{shown}")
    return np.stack([panel for panel in panels if not isinstance(panel, str)])
