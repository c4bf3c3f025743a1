"""Collections of many kinds of pictures with copies planted in them: what calibration is fitted to and held against.

Kinds are archives (docs/data.md), of which held-out pictures are taken where there are enough, groups of documents that
a program draws, and photos beside those in which a part has another colour (`variants`). Half of the copies are edited
easily, half hard (`edits`).
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from diptych_runtime.atomic import replacing_folder
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.decoder import panel_pixels
from diptych_studies.kinds.odd_edits import ODD_EDITS
from diptych_studies.kinds.variants import VARIANTS, recolour_part
from diptych_training.data.archives import CLASS, Photo, list_photos, read_photos
from diptych_training.data.csv import read_table
from diptych_training.data.documents import GROUPS, draw_documents
from diptych_training.data.edits import REPERTOIRES, picture_names, write_queries
from diptych_training.errors import DataError

ARCHIVES = (
    *("clothing", "flowers", "trashnet", "openimages_doors", "goods", "screens", "cards_coins"),
    *("lookalike_objects", "boofcv_views", "sfm_sets"),
)
SHOWN = ("clothing", "goods", "trashnet", "flowers")  # archives whose photos are shown beside variants
KINDS = (*ARCHIVES, VARIANTS, *GROUPS)
PICTURES, COPIES = 300, 50  # of a kind at most, and how many of them are copied by either repertoire
DRAWN = 160  # documents of a group
SIDE = 640  # of a drawn document
SEED = 31
ODD_COPIES, ODD_SEED = 36, 77  # odd copies of a kind at most
COLUMNS = ("path", "photo", "thing", "group")
# The mean difference, 0 to 255, of two thumbnails of one photo that an archive has twice. Screenshots may be nearer;
# they are one where no pixel differs.
THUMBNAIL, ONE_PHOTO, NEARLY_ALIKE = 64, 1.5, ("screens",)


@dataclass(frozen=True)
class Planted:
    """A prepared kind: `names` of its pictures below `folder`, and for each the number of the photo that it is or is a
    copy of, `original` (n,), and of what it shows, `thing` (n,). `group` (n,) numbers those of which it is not known
    whether they show the same thing; -1 elsewhere.
    """

    kind: str
    folder: Path
    names: list[str]
    original: np.ndarray
    thing: np.ndarray
    group: np.ndarray

    def is_match(self, pairs: np.ndarray, question: str) -> np.ndarray:
        """True for pairs int64 (P, 2) of places that match, bool (P,).

        They are copies of one photo, or of one thing.
        """
        copies, things = (known[pairs[:, 0]] == known[pairs[:, 1]] for known in (self.original, self.thing))
        return copies if question == COPY else copies | things

    def is_unknown(self, pairs: np.ndarray, question: str) -> np.ndarray:
        """True for pairs that may match or not, bool (P,).

        Two photos of one class may show the same thing.
        """
        if question == COPY:
            return np.zeros(len(pairs), bool)
        a, b = self.group[pairs.T]
        return (a == b) & (a >= 0) & ~self.is_match(pairs, question)

    def count_copies(self) -> int:
        """Count the pairs of pictures that are copies of one photo."""
        return sum(count * (count - 1) // 2 for count in Counter(self.original.tolist()).values())


def open_kinds(kinds: Sequence[str], folder: Path, sets: Path) -> list[Planted]:
    """`open_planted` of kinds, each to be measured with a fit to the others: `DataError` for fewer than two."""
    if len(kinds) < 2:
        raise DataError(f"a kind is measured with what the others say: name two kinds at least, got {', '.join(kinds)}")
    return [open_planted(kind, folder, sets) for kind in kinds]


def open_planted(kind: str, folder: Path, sets: Path) -> Planted:
    """Prepare a kind from the archives in `folder`, unless it is there, and read it. Raises `DataError` for a kind that
    is none.
    """
    if kind not in KINDS:
        raise DataError(f"there is no kind {kind!r}: kinds are {', '.join(KINDS)}")
    target = _prepare_kind(kind, folder, sets)
    rows = read_table(target / "originals.csv", COLUMNS)
    names = [row["path"] for row in rows]
    place = {name: number for number, name in enumerate(names)}
    shown = list(range(len(names)))
    for repertoire in REPERTOIRES:
        for row in read_table(target / repertoire / "truth.csv", ["query", "reference"]):
            names.append(f"{repertoire}/{row['query']}")
            shown.append(place[f"originals/{row['reference']}"])
    photos, things, groups = (np.unique([row[key] for row in rows], return_inverse=True)[1] for key in COLUMNS[1:])
    groups[[row["group"] == "" for row in rows]] = -1
    return Planted(kind, target, names, photos[shown], things[shown], groups[shown])


def add_odd_copies(planted: Planted) -> Planted:
    """A kind with copies by `ODD_EDITS` in its folder `odd`, one edit each in turn; they are drawn once."""
    rng, folder = np.random.default_rng(ODD_SEED), planted.folder / "odd"
    folder.mkdir(exist_ok=True)
    # A copy in shades of grey is one of both, the photo and its variant: of these none are made.
    among = [
        place
        for place, name in enumerate(planted.names)
        if name.startswith("originals/") and (planted.kind != VARIANTS or planted.group[place] < 0)
    ]
    chosen = rng.permutation(among)[: min(ODD_COPIES, len(among) // 2)]
    names = []
    for number, place in enumerate(chosen):
        edit = list(ODD_EDITS)[number % len(ODD_EDITS)]
        names.append(f"odd/{number:03d}-{edit}.jpg")
        if not (planted.folder / names[-1]).is_file():
            with Image.open(planted.folder / planted.names[place]) as picture:
                rgb = np.asarray(picture.convert("RGB"))
            edited = ODD_EDITS[edit](rgb, np.random.default_rng([ODD_SEED, number]))
            Image.fromarray(edited).save(planted.folder / names[-1], quality=85)
    known = {key: getattr(planted, key) for key in ("original", "thing", "group")}
    copied = {key: np.concatenate([values, values[chosen]]) for key, values in known.items()}
    return replace(planted, names=[*planted.names, *names], **copied)


def _prepare_kind(kind: str, folder: Path, sets: Path) -> Path:
    """Write a kind's pictures, their subjects and copies into `sets/KIND`.

    It is there whole or not at all.
    """
    target = sets / kind
    if target.is_dir():
        return target
    with replacing_folder(target) as fresh:
        originals = fresh / "originals"
        originals.mkdir()
        if kind == VARIANTS:
            rows = _write_variants(folder, originals)
        else:
            rows = _write_documents(kind, originals) if kind in GROUPS else _write_photos(kind, folder, originals)
        with (fresh / "originals.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
        # A copy in shades of grey is one of both, the photo and its variant: of these none are made.
        among = [Path(name).name for name, *_, group in rows if kind != VARIANTS or not group]
        count = min(COPIES, len(picture_names(originals)) // 2, len(among))
        for number, repertoire in enumerate(REPERTOIRES):
            write_queries(
                originals, fresh / repertoire, count=count, seed=SEED + number, among=among, repertoire=repertoire
            )
    return target


def _write_documents(group: str, target: Path) -> list[tuple[str, str, str, str]]:
    rows = []
    for number, pixels in enumerate(draw_documents(DRAWN, SIDE, SEED, GROUPS[group])):
        name = f"originals/{number:03d}.png"
        Image.fromarray(pixels).save(target.parent / name)
        rows.append((name, name, name, ""))
    return rows


def _write_variants(folder: Path, target: Path) -> list[tuple[str, str, str, str]]:
    """Write held-out photos of several archives, a third of the pictures alone, and others beside themselves with a
    part in another colour: another picture, of which it is not known whether it shows the same thing.
    """
    rows: list[tuple[str, str, str, str]] = []
    count = PICTURES // (3 * len(SHOWN))  # of an archive alone, and as many of which there is a variant
    for archive in SHOWN:
        photos = [photo for photo in list_photos(folder, [archive]) if photo.split != "train"]
        rng, first = np.random.default_rng(SEED), len(rows)
        for data in read_photos(folder, [photos[place] for place in rng.permutation(len(photos))]):
            if len(rows) - first >= 3 * count:
                break
            photo = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            alone = len(rows) - first < count
            variant = None if alone else recolour_part(photo, rng)
            if alone or variant is not None:
                group = "" if alone else f"originals/{len(rows):03d}.jpg"
                for pixels in (photo,) if variant is None else (photo, variant):
                    name = f"originals/{len(rows):03d}.jpg"
                    Image.fromarray(pixels).save(target.parent / name, quality=95)
                    rows.append((name, name, name, group))
    return rows


def _write_photos(kind: str, folder: Path, target: Path) -> list[tuple[str, str, str, str]]:
    """Write pictures, held out from training where there are enough, drawn with the seed; return their rows, with the
    subject of each, and with the class where only that is known.
    """
    photos = list_photos(folder, [kind])
    held_out = [photo for photo in photos if photo.split != "train"]
    chosen = held_out if len(held_out) >= PICTURES else photos
    order = np.random.default_rng(SEED).permutation(len(chosen))[:PICTURES]
    ordered = [chosen[place] for place in sorted(order)]
    names = [f"originals/{number:03d}{Path(photo.name).suffix.lower()}" for number, photo in enumerate(ordered)]
    for name, data in zip(names, read_photos(folder, ordered), strict=True):
        (target.parent / name).write_bytes(data)
    same = _find_first_equal if kind in NEARLY_ALIKE else _find_first_alike
    first = same([target.parent / name for name in names])
    return [
        (name, names[place], photo.subject, _name_class(photo))
        for name, place, photo in zip(names, first, ordered, strict=True)
    ]


def _find_first_alike(files: Sequence[Path]) -> list[int]:
    """The place of the first of the files that shows the same photo as each."""
    thumbnails = np.stack([panel_pixels(file, THUMBNAIL).ravel().astype(np.float32) for file in files])
    return [int(np.argmax(np.abs(thumbnails - one).mean(1) < ONE_PHOTO)) for one in thumbnails]


def _find_first_equal(files: Sequence[Path]) -> list[int]:
    """The place of the first of the files that has the same pixels as each."""
    known: dict[tuple[tuple[int, int], bytes], int] = {}
    return [
        known.setdefault((picture.size, picture.tobytes()), place)
        for place, picture in enumerate(map(_open_picture, files))
    ]


def _open_picture(file: Path) -> Image.Image:
    with Image.open(file) as picture:
        return picture.convert("RGB")


def _name_class(photo: Photo) -> str:
    folder = photo.name.partition("/")[0]
    return folder if folder.startswith(CLASS) else ""
