"""The sets that `diptych study marks` measures a model on: plain pictures and tables, prepared once from the archives.

`MARKS` has them all, in the order of the table. Every set is a folder with what `diptych evaluate copies` or
`diptych evaluate retrieval` reads, and `set.json`, the settings it was prepared with.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from diptych_runtime.atomic import replacing_folder
from diptych_studies.data.tables import read_table_of
from diptych_training.data.archives import (
    Photo,
    list_photos,
    load_photos,
    read_member,
    read_photos,
    subjects_of,
)
from diptych_training.data.csv import read_column
from diptych_training.data.edits import Props, picture_names, write_queries
from diptych_training.errors import DataError

REFERENCES = "references"
COPIED = ("clothing", "flowers", "openimages_doors", "trashnet")
VIEWED = ("abo_samples", "boofcv_views", "sfm_sets")
STRANGE = ("boofcv_views", "clothing", "flowers", "lookalike_objects", "openimages_doors", "photos_cc0", "trashnet")
BACKGROUNDS = ("boofcv_views", "photos_cc0", "screens")
# A walk along a street and a flight over a beach, whose ends have nothing in common: only the middle is one place.
WALKS = ("sfm_sets/same_opensfm_lund", "sfm_sets/same_drone_brighton_beach")
# Travel photos of the very chair and cave that groups of the same archive show.
SEEN_ELSEWHERE = ("class_vacation/image00040.jpg", "class_vacation/image00135.jpg")
_COMPARED = 64  # pixels of the panels in which near-duplicates are looked for


@dataclass(frozen=True)
class Settings:
    """The sizes of the sets; the same settings draw the same sets.

    `references` at most; `queries` of each set of copies, and `distractors` beside the hard ones; `strangers` in a
    gallery; queries `per_group` at most, so that no thing with many pictures rules.
    """

    references: int = 6000
    queries: int = 500
    distractors: int = 500
    strangers: int = 1000
    per_group: int = 6
    seed: int = 20


@dataclass(frozen=True)
class Source:
    """The archives of a folder, and the settings of the sets to draw from them."""

    folder: Path
    settings: Settings = field(default_factory=Settings)

    def select_photos(self, archives: Sequence[str], split: str = "validation") -> list[Photo]:
        """The photos of one split, in the archives' order."""
        return [photo for photo in list_photos(self.folder, archives) if photo.split == split]

    def sample_photos(self, photos: Sequence[Photo], count: int) -> list[Photo]:
        """At most `count` of the photos, drawn with the seed."""
        rng = np.random.default_rng(self.settings.seed)
        return [photos[i] for i in rng.permutation(len(photos))[:count]]

    def write_photos(self, photos: Iterable[Photo], target: Path) -> None:
        """Write photos below a folder, each under its name in the archive."""
        ordered = sorted(photos, key=lambda photo: (photo.archive, photo.name))
        for photo, data in zip(ordered, read_photos(self.folder, ordered), strict=True):
            path = target / photo.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


@dataclass(frozen=True)
class Mark:
    """One set: the `question` it asks of a model (copy or thing), the protocol that measures it and the `figure` of
    it that the table shows; `prepare(source, sets, folder)` writes it into a new folder, to be one of `sets`.
    """

    question: str
    protocol: str
    figure: str
    prepare: Callable[[Source, Path, Path], None]


def prepare_set(name: str, source: Source, sets: Path) -> Path:
    """Return the folder of a set, prepared whole or not at all where it is not there yet.

    Raises `DataError` where it was prepared with other settings.
    """
    if MARKS[name].protocol == "copies":
        _prepare_folder(REFERENCES, _write_references, source, sets)
    return _prepare_folder(name, MARKS[name].prepare, source, sets)


def _prepare_folder(name: str, write: Callable[[Source, Path, Path], None], source: Source, sets: Path) -> Path:
    folder, wanted = sets / name, asdict(source.settings)
    if not (folder / "set.json").is_file():
        with replacing_folder(folder) as fresh:
            write(source, sets, fresh)
            (fresh / "set.json").write_text(json.dumps(wanted, indent=1) + "\n")
    elif (found := json.loads((folder / "set.json").read_text())) != wanted:
        raise DataError(
            f"{folder} was prepared with the settings {found}, and {wanted} are asked for; "
            "remove that folder, or name another one with --out"
        )
    return folder


def _write_references(source: Source, sets: Path, folder: Path) -> None:
    """Held-out pictures and as many others as there is room for; near-duplicates once, so that none is a second right
    answer. Those that distractors are made from are put aside: they are in `held-out.csv`, and not in the folder.
    """
    from diptych_training.tasks.hard_negatives import without_duplicates  # it imports torch

    settings = source.settings
    validation, train = (
        source.sample_photos(source.select_photos(COPIED, split), 10**9) for split in ("validation", "train")
    )
    photos = load_photos(source.folder, validation + train, _COMPARED)
    _, first = np.unique(without_duplicates(subjects_of(photos), photos.pixels), return_index=True)
    kept = np.sort(first)
    asked, others = ([photos.rows[i] for i in kept if (i < len(validation)) == held] for held in (True, False))
    if len(asked) < settings.queries + settings.distractors:
        raise DataError(
            f"{settings.queries} queries and {settings.distractors} distractors need as many held-out pictures, and "
            f"{', '.join(COPIED)} have {len(asked)}"
        )
    aside, shown = asked[: settings.distractors], asked[settings.distractors :]
    source.write_photos((shown + others)[: settings.references], folder)
    _write_table(folder / "validation.csv", shown)
    _write_table(folder / "held-out.csv", aside)


def _write_easy_copies(source: Source, sets: Path, folder: Path) -> None:
    count, seed = source.settings.queries, source.settings.seed
    among = read_column(sets / REFERENCES / "validation.csv", "path")
    write_queries(sets / REFERENCES, folder / "queries", count=count, seed=seed, among=among, repertoire="easy")


def _write_hard_copies(source: Source, sets: Path, folder: Path) -> None:
    settings, names = source.settings, set(read_column(sets / REFERENCES / "held-out.csv", "path"))
    with TemporaryDirectory(dir=folder.parent) as temporary:
        aside, scenes = Path(temporary, "aside"), Path(temporary, "scenes")
        source.write_photos([photo for photo in source.select_photos(COPIED) if photo.name in names], aside)
        source.write_photos([photo for photo in source.select_photos(BACKGROUNDS) if not _is_thing(photo)], scenes)
        write_queries(
            sets / REFERENCES,
            folder / "queries",
            count=settings.queries,
            seed=settings.seed,
            among=read_column(sets / REFERENCES / "validation.csv", "path"),
            repertoire="hard",
            distractors=settings.distractors,
            distractors_from=aside,
            props=Props([scenes / name for name in picture_names(scenes)], read_stickers(source.folder / "emoji.zip")),
        )


def read_stickers(archive: Path) -> list[bytes]:
    """Read the PNG files of a ZIP archive, in the order of their names. Raises DataError."""
    if not archive.is_file():
        raise DataError(f"expected a ZIP archive of PNG files at {archive}, got no file")
    name = ""
    try:
        with zipfile.ZipFile(archive) as file:
            # Archives made on a Mac have a second entry, ._NAME, for each file.
            names = sorted(
                name for name in file.namelist() if re.search(r"(^|/)(?!\._)[^/]+\.png$", name, re.IGNORECASE)
            )
            stickers = []
            for name in names:
                stickers.append(read_member(file, name))
                Image.open(io.BytesIO(stickers[-1]), formats=["PNG"]).verify()
    except (OSError, SyntaxError, zipfile.BadZipFile) as error:
        raise DataError(
            f"expected a ZIP archive of PNG files, got {archive}: {name or 'it'} is damaged ({error})"
        ) from None
    if not stickers:
        raise DataError(f"expected PNG files in {archive}, got none; name an archive of emoji or other stickers")
    return stickers


def _write_covers(source: Source, sets: Path, folder: Path) -> None:
    """Book covers, each to be found in the painting it was cropped from."""
    photos = source.select_photos(["se_covers"])
    scans = [photo for photo in photos if photo.name.endswith(".source.jpg")]
    scanned = {photo.subject for photo in scans}
    covers = [photo for photo in photos if photo not in scans]
    strangers = [photo for photo in covers if photo.subject not in scanned]
    strangers += source.sample_photos(_list_strangers(source), max(0, source.settings.strangers - len(strangers)))
    _write_retrieval(source, folder, [photo for photo in covers if photo.subject in scanned], scans + strangers)


def _write_things(source: Source, sets: Path, folder: Path) -> None:
    """Pictures of one thing from elsewhere, to be found among those of other things."""
    groups: dict[str, list[Photo]] = {}
    for photo in source.select_photos(VIEWED):
        if _is_thing(photo):
            groups.setdefault(photo.subject, []).append(photo)
    groups |= {name: _select_middle(groups[name], source.settings.per_group) for name in WALKS if name in groups}
    several = [group for group in groups.values() if len(group) > 1]
    queries = [photo for group in several for photo in source.sample_photos(group, source.settings.per_group)]
    strangers = source.sample_photos(_list_strangers(source), source.settings.strangers)
    _write_retrieval(source, folder, queries, [photo for group in several for photo in group] + strangers)


def _write_sides(source: Source, sets: Path, folder: Path) -> None:
    """Articles seen from several sides, among all articles."""
    held_out, rest = source.select_photos(["goods"]), source.select_photos(["goods"], "train")
    items = [photo.subject for photo in held_out]
    _write_retrieval(source, folder, [photo for photo in held_out if items.count(photo.subject) > 1], held_out + rest)


def _write_catalogue(source: Source, sets: Path, folder: Path, *, package: str) -> None:
    """Photos taken in shops, and the catalogue's picture of each class."""
    rows = read_table_of(source.folder, "grocery", "grocery/iconic.csv")
    chosen = {row["class"] for row in rows if row["package"] == package}
    photos = list_photos(source.folder, ["grocery"])
    shop = [photo for photo in photos if photo.kind == "grocery" and photo.split == "validation"]
    iconic = [photo for photo in photos if photo.kind == "iconic"]
    _write_retrieval(source, folder, [photo for photo in shop if photo.subject in chosen], iconic)


MARKS = {
    "easy-copies": Mark("copy", "copies", "micro_ap", _write_easy_copies),
    "hard-copies": Mark("copy", "copies", "micro_ap", _write_hard_copies),
    "covers": Mark("copy", "retrieval", "recall@1", _write_covers),
    "things": Mark("thing", "retrieval", "map", _write_things),
    "sides": Mark("thing", "retrieval", "recall@1", _write_sides),
    "catalogue-packages": Mark("thing", "retrieval", "recall@1", partial(_write_catalogue, package="1")),
    "catalogue-produce": Mark("thing", "retrieval", "recall@1", partial(_write_catalogue, package="0")),
}


def _list_strangers(source: Source) -> list[Photo]:
    """Held-out pictures that show nothing which a query shows."""
    return [
        photo for photo in source.select_photos(STRANGE) if not _is_thing(photo) and photo.name not in SEEN_ELSEWHERE
    ]


def _is_thing(photo: Photo) -> bool:
    """True if a photo is of a group that shows one thing."""
    return photo.subject != photo.name


def _select_middle(photos: Sequence[Photo], count: int) -> list[Photo]:
    start = max(0, (len(photos) - count) // 2)
    return list(photos[start : start + count])


def _write_retrieval(source: Source, folder: Path, queries: Sequence[Photo], gallery: Sequence[Photo]) -> None:
    if not queries:
        raise DataError(
            f"expected held-out pictures of {gallery[0].archive} to ask for, got none in {source.folder}; "
            "use an archive with more of them, or leave this set out"
        )
    source.write_photos({photo.name: photo for photo in (*queries, *gallery)}.values(), folder / "photos")
    for name, photos in (("queries", queries), ("gallery", gallery)):
        _write_table(folder / f"{name}.csv", photos)


def _write_table(path: Path, photos: Sequence[Photo]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "class"])
        writer.writerows(sorted([photo.name, photo.subject] for photo in photos))
