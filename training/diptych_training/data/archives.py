"""The photo archives that training reads: pictures as panels, with what each shows and which split it belongs to.

The archives are found in the folder named by DIPTYCH_DATA; where each comes from stands in docs/data.md.
"""

import csv
import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path, PureWindowsPath

import numpy as np

from diptych_runtime.atomic import replacing_folder
from diptych_runtime.decoder import SUFFIXES, PictureLimits, panel_pixels
from diptych_runtime.paths import given_path
from diptych_training.data import documents, synthetic
from diptych_training.errors import DataError

SPLITS = ("train", "validation", "test")
DRAWN, DRAWN_PICTURES = "drawn", 4000
DOCUMENTS, DOCUMENT_PICTURES = "documents", 2000

# Archives laid out as GROUP/PICTURE.jpg, and the share of each that is held out for validation: all of those whose
# kind of picture training shall never have seen, and enough doors to be strangers among them.
GROUPED = {
    "abo_samples": 1.0,
    "boofcv_views": 1.0,
    "cards_coins": 1.0,
    "lookalike_objects": 1.0,
    "openimages_doors": 0.35,
    "photos_cc0": 1.0,
    "screens": 0.1,
    "se_covers": 1.0,
    "sfm_sets": 1.0,
    "trashnet": 0.1,
}
SAME, CLASS = "same_", "class_"
_MOST_BYTES = PictureLimits.bytes  # of a picture or a table, unpacked
_MOST_TIMES = 20  # of the bytes of an archive, all that is unpacked of it: pictures are compressed already


@dataclass(frozen=True)
class Photo:
    """One photo of an archive.

    `subject` names what it shows: two photos of one subject are never each other's negatives. Photos of an archive
    that knows only what sort of thing each shows are a subject each: fit for copies, while two of them may well show
    the same thing. `kind` is the archive, with grocery's catalogue pictures apart as *iconic*; `split` one of `SPLITS`,
    held out by contributor, class or item.
    """

    archive: str
    name: str
    kind: str
    subject: str
    split: str


@dataclass(frozen=True)
class Photos:
    """Photos and their panels: `pixels` is uint8 (n, size, size, 3), from the decoder that serves."""

    rows: tuple[Photo, ...]
    pixels: np.ndarray

    def find_places(self, *, kinds: Sequence[str], split: str) -> np.ndarray:
        """Return the indices of the photos of these kinds in one split, int64."""
        return np.array([i for i, row in enumerate(self.rows) if row.kind in kinds and row.split == split], np.int64)


def subjects_of(photos: Photos) -> np.ndarray:
    """Number the subjects, int64 (n,): two photos of one subject have one number."""
    return np.unique([row.subject for row in photos.rows], return_inverse=True)[1].astype(np.int64)


class Archives:
    """The archives of a folder as panels of `size` x `size` pixels, each read once however many tasks use it.

    Two are no files: `drawn` and `documents` are pictures drawn by a program, held out by family.
    Without a folder, that which DIPTYCH_DATA names; it is looked for when first needed.
    """

    def __init__(self, size: int, folder: Path | None = None) -> None:
        self.size, self._folder = size, folder
        self._read: dict[str, Photos] = {}

    @property
    def folder(self) -> Path:
        """The folder of the archives; raises `DataError` where it is unknown."""
        return self._folder or data_folder()

    def load_photos(self, names: Sequence[str]) -> Photos:
        """The photos of these archives, in their order."""
        for name in names:
            if name not in self._read:
                self._read[name] = self._load_archive(name)
        parts = [self._read[name] for name in names]
        rows = tuple(row for part in parts for row in part.rows)
        return Photos(rows, np.concatenate([part.pixels for part in parts]))

    def sample_pictures(self, count: int) -> np.ndarray:
        """Up to `count` training pictures of all that was read, spread evenly: uint8 (n, size, size, 3)."""
        chosen = [(part, i) for part in self._read.values() for i, row in enumerate(part.rows) if row.split == "train"]
        chosen = chosen[:: max(1, len(chosen) // count)][:count]
        return np.array([part.pixels[i] for part, i in chosen], np.uint8).reshape(-1, self.size, self.size, 3)

    def _load_archive(self, archive: str) -> Photos:
        if archive not in generated_sources():
            return load_photos(self.folder, list_photos(self.folder, [archive]), self.size)
        draw, count, members = generated_sources()[archive]
        names = [f"{archive}/{i // members}/{i % members}" for i in range(count)]
        splits = [split_of(name.rpartition("/")[0], test=0.0) for name in names]
        rows = tuple(Photo(archive, name, archive, name, split) for name, split in zip(names, splits, strict=True))
        return Photos(rows, draw(count, self.size))


def generated_sources() -> dict[str, tuple[Callable[[int, int], np.ndarray], int, int]]:
    """Return the archives that a program draws: the function, how many pictures, and how many a family has."""
    return {
        DRAWN: (synthetic.draw_pictures, DRAWN_PICTURES, synthetic.MEMBERS),
        DOCUMENTS: (documents.draw_documents, DOCUMENT_PICTURES, documents.MEMBERS),
    }


def data_folder() -> Path:
    """Return the folder named by DIPTYCH_DATA; raise `DataError` where it is unset or absent."""
    folder = given_path(os.environ.get("DIPTYCH_DATA", ""))
    if not folder or not Path(folder).is_dir():
        raise DataError(
            f"the archives are expected in the folder named by DIPTYCH_DATA, which is {folder!r}; "
            "set it to a folder that holds them (docs/data.md says which and where they come from)"
        )
    return Path(folder)


def list_photos(folder: Path, archives: Sequence[str]) -> list[Photo]:
    """List the photos of these archives in a fixed order, with subjects and splits."""
    readers: dict[str, Callable[[zipfile.ZipFile], Iterator[Photo]]] = {
        "clothing": _list_clothing,
        "flowers": _list_flowers,
        "goods": _list_goods,
        "grocery": _list_grocery,
        **{archive: partial(_list_groups, archive=archive) for archive in GROUPED},
    }
    photos: list[Photo] = []
    for archive in archives:
        if archive not in readers:
            raise DataError(f"no archive is called {archive!r}; known are {', '.join(readers)}")
        with zipfile.ZipFile(find_archive(folder, archive)) as file:
            photos.extend(readers[archive](file))
    return photos


def read_photos(folder: Path, photos: Sequence[Photo]) -> Iterator[bytes]:
    """Yield the file of each photo, in order. Raises `DataError` for one of more bytes than a picture may have."""
    for archive, group in groupby(photos, key=lambda photo: photo.archive):
        with zipfile.ZipFile(find_archive(folder, archive)) as file:
            for photo in group:
                yield read_member(file, photo.name)


def load_photos(folder: Path, photos: Sequence[Photo], size: int) -> Photos:
    """Decode photos into panels of size x size pixels (two at a time; about a second for 500)."""
    pixels = np.empty((len(photos), size, size, 3), np.uint8)
    with ThreadPoolExecutor(2) as pool:
        for i, panel in enumerate(pool.map(lambda data: panel_pixels(data, size), read_photos(folder, photos))):
            pixels[i] = panel
    return Photos(tuple(photos), pixels)


def unpack_archive(folder: Path, archive: str, target: Path) -> dict[str, int]:
    """Write an archive's photos into a new folder, and beside them `SPLIT.csv` for each split: path, class (what
    it shows) and kind (the archive, or `iconic` for a catalogue picture).

    Return how many photos each split has.
    """
    if target.exists() and any(target.iterdir()):
        raise DataError(f"{target} is not empty; name a new folder for the photos of {archive}")
    photos, written = list_photos(folder, [archive]), 0
    most = max(_MOST_BYTES, _MOST_TIMES * find_archive(folder, archive).stat().st_size)
    with replacing_folder(target) as fresh:
        paths = [_find_place(photo, fresh) for photo in photos]
        for path, data in zip(paths, read_photos(folder, photos), strict=True):
            written += len(data)
            if written > most:
                raise DataError(f"{archive}.zip holds more than {most:,} bytes of files, too many for its own size")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for split in SPLITS:
            with (fresh / f"{split}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["path", "class", "kind"])
                writer.writerows([photo.name, photo.subject, photo.kind] for photo in photos if photo.split == split)
    return {split: sum(photo.split == split for photo in photos) for split in SPLITS}


def _find_place(photo: Photo, folder: Path) -> Path:
    """The path of a photo in a folder; raises `DataError` for a name that leads out of it or is no picture's."""
    named, path = PureWindowsPath(photo.name), folder / photo.name  # which knows drives, and both slashes
    inside = not named.anchor and ".." not in named.parts and path.resolve().is_relative_to(folder.resolve())
    if not inside or named.suffix.lower() not in SUFFIXES:
        raise DataError(
            f"{photo.archive}.zip names {photo.name[:200]!r}; expected a picture's path within the folder, such as "
            "a/b.jpg: take the archive from where docs/data.md says"
        )
    return path


def _list_clothing(file: zipfile.ZipFile) -> Iterator[Photo]:
    for row in _read_rows(file, "clothing/images.csv"):
        name = f"clothing/{row['path']}"
        yield Photo("clothing", name, "clothing", name, split_of("clothing contributor " + row["contributor"]))


def _list_flowers(file: zipfile.ZipFile) -> Iterator[Photo]:
    for row in _read_rows(file, "flowers/images.csv"):
        name = f"flowers/{row['path']}"
        yield Photo("flowers", name, "flowers", name, split_of(name, test=0.0))


def _list_goods(file: zipfile.ZipFile) -> Iterator[Photo]:
    for row in _read_rows(file, "goods/images.csv"):
        yield Photo("goods", f"goods/{row['path']}", "goods", row["item"], split_of("style " + row["style"], test=0.0))


def _list_grocery(file: zipfile.ZipFile) -> Iterator[Photo]:
    for table, kind in (("train", "grocery"), ("val", "grocery"), ("iconic", "iconic")):
        for row in _read_rows(file, f"grocery/{table}.csv"):
            # Held out by the coarse class: the seven milks are not unseen while one of them is trained on.
            split = split_of("coarse " + row["coarse_class"], validation=0.25, test=0.0)
            yield Photo("grocery", f"grocery/{row['path']}", kind, row["class"], split)


def _list_groups(file: zipfile.ZipFile, *, archive: str) -> Iterator[Photo]:
    """A group `same_*` is one subject; in a group `class_*` every picture is its own."""
    names = sorted(name for name in file.namelist() if Path(name).suffix.lower() in SUFFIXES)
    if not names:
        raise DataError(f"{archive}.zip has no GROUP/PICTURE.jpg; see docs/data.md for its layout")
    for name in names:
        group, slash, _ = name.partition("/")
        if not slash or not group.startswith((SAME, CLASS)):
            raise DataError(f"{archive}.zip has {name!r}; its pictures are expected in folders {SAME}* or {CLASS}*")
        subject = f"{archive}/{group}" if group.startswith(SAME) else name
        yield Photo(archive, name, archive, subject, split_of(name, validation=GROUPED[archive], test=0.0))


def split_of(key: str, *, validation: float = 0.1, test: float = 0.18) -> str:
    """Return the split of a contributor, class or item: by the digest of its name, so that it never moves."""
    place = int.from_bytes(hashlib.sha256(key.encode(errors="surrogateescape")).digest()[:4], "big") / 2**32
    return "test" if place < test else "validation" if place < test + validation else "train"


def find_archive(folder: Path, archive: str) -> Path:
    """The file of an archive; raises `DataError` where it is not in the folder."""
    path = folder / f"{archive}.zip"
    if not path.is_file():
        raise DataError(f"expected the archive {path.name} in the folder named by DIPTYCH_DATA; see docs/data.md")
    return path


def _read_rows(file: zipfile.ZipFile, name: str) -> Iterator[dict[str, str]]:
    if name not in file.namelist():
        raise DataError(f"{Path(file.filename or '').name} has no {name}; see docs/data.md for its layout")
    yield from csv.DictReader(io.StringIO(read_member(file, name).decode(), newline=""))


def read_member(file: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a member, of which no more are unpacked than a picture may have, whatever size it states."""
    with file.open(name) as member:
        data = member.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise DataError(
            f"{file.filename} has more than {_MOST_BYTES:,} bytes in {name[:200]!r}, too much for a picture"
        )
    return data
