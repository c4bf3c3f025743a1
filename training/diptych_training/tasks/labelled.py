"""Your own pictures: a folder a class, a CSV of path and class, or a CSV of labelled pairs."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Generator

from diptych_runtime.decoder import panel_pixels
from diptych_runtime.errors import PictureError
from diptych_runtime.folders import DEFAULT, pictures_below
from diptych_runtime.paths import given_path
from diptych_training.data.archives import split_of
from diptych_training.data.augment import draw_sprites
from diptych_training.data.csv import LABELS, read_table
from diptych_training.errors import DataError
from diptych_training.tasks.hard_negatives import find_nearest
from diptych_training.tasks.task import Embed, OpenTask, Part, Source, Task, shoot_part
from diptych_training.tasks.validation import ValidationSet, match_others

HELD_OUT = 0.2
HOLD_OUT = ("classes", "pictures")
NEIGHBOURS = 8
ASKED, SHOWN = 300, 5000  # a validation set's queries and gallery at most, unless it is the whole one


@dataclass(frozen=True)
class Classes(Task):
    """`queries` pictures a step, each against another of its class; judged by mAP on the pictures held out: among few,
    one query more or less that comes first says little.

    `pictures` is a folder with a folder for each class, or a CSV with the columns path and class (paths count from
    `root`, or from the CSV's own folder). A fifth is held out: whole *classes*, if what matters are classes that come
    later, or *pictures* of every class.
    """

    pictures: str
    root: str = ""
    queries: int = 32
    hold_out: str = "pictures"
    kind: str = field(default="classes", init=False)

    def __post_init__(self) -> None:
        if self.hold_out not in HOLD_OUT:
            raise ValueError(f"hold_out must be one of {', '.join(HOLD_OUT)}, got {self.hold_out!r}")

    def open(self, source: Source) -> "Pictures":
        """Read the list and the pictures."""
        root, listed = self.list_pictures()
        names = list(listed.values())
        subject = np.unique(names, return_inverse=True)[1]
        whole = self.hold_out == "classes"
        held_out = held_out_fifth(names if whole else list(listed), subject, whole=whole)
        return Pictures(self.queries, source, root, list(listed), subject, held_out)

    def list_pictures(self) -> tuple[Path, dict[str, str]]:
        """List the pictures: the folder of their paths, and each path's class.

        Raises `DataError` for fewer than two classes.
        """
        place = Path(given_path(self.pictures))
        root, listed = self._list_folder(place) if place.is_dir() else self._list_table(place)
        if (count := len(set(listed.values()))) < 2:
            raise DataError(
                f"{place} has pictures of {count} classes, and two at least are needed: give a folder with a "
                "folder for each class, or a CSV with the columns path and class"
            )
        return root, listed

    def _list_folder(self, place: Path) -> tuple[Path, dict[str, str]]:
        """List every picture below the folder of its class, however deep.

        Hidden folders and the like are no classes.
        """
        folders = sorted(
            path
            for path in place.iterdir()
            if path.is_dir() and not DEFAULT.exclusion_reason(path.name, str(place), "", is_folder=True)
        )
        return place, {
            path.relative_to(place).as_posix(): folder.name
            for folder in folders
            for path in sorted(pictures_below(folder))
        }

    def _list_table(self, place: Path) -> tuple[Path, dict[str, str]]:
        if not place.is_file():
            raise DataError(f"pictures = {self.pictures!r} is neither a folder nor a CSV")
        listed: dict[str, str] = {}
        for number, row in enumerate(read_table(place, ["path", "class"]), 2):
            if row["path"] in listed:
                raise DataError(f"{place}, line {number}: {row['path']} is listed twice; leave one")
            listed[row["path"]] = row["class"]
        return Path(given_path(self.root)) if self.root else place.parent, listed


@dataclass(frozen=True)
class Pairs(Task):
    """Labelled pairs: `table` is a CSV with the columns image_a, image_b and label (1 where they show the same, else
    0), its paths counting from `root`, or from the CSV's own folder.

    What pairs of label 1 connect counts as one thing; two pictures of different things are rivals, those of label 0
    above all. A fifth of the things is held out; judged by mAP.
    """

    table: str
    root: str = ""
    queries: int = 32
    kind: str = field(default="pairs", init=False)

    def open(self, source: Source) -> "Pictures":
        """Read the pairs and their pictures."""
        table = Path(given_path(self.table))
        rows = read_table(table, ["image_a", "image_b", "label"])
        names = sorted({row[side] for row in rows for side in ("image_a", "image_b")})
        place = {name: i for i, name in enumerate(names)}
        subject, apart = np.arange(len(names)), list[tuple[int, int, int]]()
        for number, row in enumerate(rows, 2):
            label = LABELS.get(row["label"].strip().lower())
            if label is None:
                raise DataError(f"{self.table}, line {number}: label must be 1 or 0, got {row['label']!r}")
            a, b = place[row["image_a"]], place[row["image_b"]]
            if label:
                subject[subject == max(subject[a], subject[b])] = min(subject[a], subject[b])
            else:
                apart.append((number, a, b))
        for number, a, b in apart:
            if subject[a] == subject[b]:
                raise DataError(
                    f"{self.table}, line {number}: {names[a]} and {names[b]} are said to differ, and pairs of label 1 "
                    "connect them; mend one label"
                )
        if len(np.unique(subject)) == len(names):
            raise DataError(f"{self.table} has no pair of two pictures with label 1: nothing to learn likeness from")
        # A thing goes by the first of its names, so that its split does not move with the order of the rows.
        held_out = held_out_fifth([names[s] for s in subject], subject, whole=True)
        root = Path(given_path(self.root)) if self.root else table.parent
        return Pictures(self.queries, source, root, names, subject, held_out, [(a, b) for _, a, b in apart])


class Pictures(OpenTask):
    """Pictures of known things: `subject` (n,) numbers them, `held_out` (n,) bool is what is not learnt from, `apart`
    are pairs that are said to be something else.
    """

    def __init__(
        self,
        queries: int,
        source: Source,
        root: Path,
        names: Sequence[str],
        subject: np.ndarray,
        held_out: np.ndarray,
        apart: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.queries, self.source, self.names = queries, source, tuple(names)
        self.subject, self.held_out = subject, held_out
        seen, learnt = np.bincount(subject), np.bincount(subject[~held_out], minlength=subject.max() + 1)
        self.asking = np.flatnonzero(~held_out & (learnt[subject] > 1))
        self.asked = np.flatnonzero(held_out & (seen[subject] > 1))
        if not len(self.asking) or len(np.unique(subject[~held_out])) < 2 or not len(self.asked):
            raise DataError(
                f"{len(names)} pictures of {np.count_nonzero(seen)} things are too few: once a fifth is held out, "
                "two things with two pictures of one are needed to learn from and one picture to ask with; bring more"
            )
        self.pixels = torch.from_numpy(read_panels([root / name for name in names], source.archives.size)).to(
            source.device
        )
        self.apart: Mapping[int, list[int]] = _both_ways(apart)
        self.sprites = draw_sprites(64, source.seed).to(source.device)

    def draw_part(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Pictures and others of their class, and rivals that mining or a label of 0 found, which are alike and not the
        same.
        """
        count = min(max(2, round(self.queries * fill)), len(self.asking))
        # Classes first, pictures second: a class of a thousand does not drown one of ten.
        by_class = rng.permutation(np.unique(self.subject[self.asking]))
        chosen = np.array([rng.choice(self.asking[self.subject[self.asking] == s]) for s in np.resize(by_class, count)])
        kin = [self.asking[(self.subject[self.asking] == self.subject[i]) & (self.asking != i)] for i in chosen]
        other = np.array([rng.choice(members) for members in kin])
        shown = np.concatenate([other, [self._choose_rival(rng, int(i)) for i in chosen]])
        return shoot_part(self.pixels, self.subject, (chosen, shown), self.source.pixels, generator, self.sprites)

    def mine_negatives(self, embed: Embed) -> None:
        """Find pictures that are alike and not the same."""
        self.neighbours = find_nearest(embed(self.pixels), self.subject, NEIGHBOURS)

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """The validation set of held-out pictures among all, the query itself left out; some of them, or all."""
        rng = np.random.default_rng(0)
        asked = self.asked if whole else np.sort(rng.permutation(self.asked)[:ASKED])
        needed = np.flatnonzero(np.isin(self.subject, self.subject[asked]))
        others = rng.permutation(np.setdiff1d(np.arange(len(self.subject)), needed))
        gallery = np.concatenate([needed, others if whole else others[: max(0, SHOWN - len(needed))]])
        relevant, itself = match_others(self.subject, asked, gallery)
        pixels = self.pixels.cpu()
        queries, shown = pixels[torch.from_numpy(asked)], pixels[torch.from_numpy(gallery)]
        return ValidationSet(queries, shown, relevant, "map", itself=itself)

    def _choose_rival(self, rng: np.random.Generator, i: int) -> int:
        """Choose a picture that surely shows another thing.

        It is one by its label or by mining, or any other.
        """
        labelled = [j for j in self.apart.get(i, []) if not self.held_out[j]]
        near = [] if self.neighbours is None else [int(j) for j in self.neighbours[i] if not self.held_out[j]]
        if labelled or near:
            return int(rng.choice(labelled or near))
        return int(rng.choice(np.flatnonzero(~self.held_out & (self.subject != self.subject[i]))))


def held_out_fifth(keys: Sequence[str], subject: np.ndarray, *, whole: bool) -> np.ndarray:
    """A fifth of the pictures that can be queries, (n,) bool, by the digest of its key, so that it stays where others
    come or go.

    Of few, chance may take none or too many: then every fifth class is held out, or every fifth picture of each.
    """
    several = np.bincount(subject)[subject] > 1
    out = np.array([split_of(key, validation=HELD_OUT, test=0.0) == "validation" for key in keys]) & several
    classes = np.unique(subject[several])
    if whole:
        if not 0 < len(np.unique(subject[out])) <= len(classes) // 2:
            out = np.isin(subject, classes[::5][: len(classes) // 2])
        return out
    for one in classes:
        members = np.flatnonzero(subject == one)
        if len(members) > 2 and not 0 < out[members].mean() <= 0.5:
            out[members] = False
            out[members[2::5]] = True
        elif len(members) == 2:
            out[members] = False
    return out


def _both_ways(pairs: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for a, b in pairs:
        found.setdefault(a, []).append(b)
        found.setdefault(b, []).append(a)
    return found


def read_panels(paths: Sequence[Path], size: int) -> np.ndarray:
    """Decode pictures into panels uint8 (n, size, size, 3); all failures are named in one error."""
    pixels, failed = np.empty((len(paths), size, size, 3), np.uint8), list[str]()

    def read_panel(place: int) -> None:
        try:
            pixels[place] = panel_pixels(paths[place], size)
        except (PictureError, OSError) as error:
            failed.append(f"{paths[place]}: {error}")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(read_panel, range(len(paths))))
    if failed:
        shown = "\n".join(sorted(failed)[:5])
        raise DataError(f"{len(failed)} of {len(paths)} pictures cannot be read; mend or remove them:\n{shown}")
    return pixels
