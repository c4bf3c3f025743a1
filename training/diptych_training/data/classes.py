"""Photos of an archive with their classes, for classifiers: which are held out is not the split of the pair tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diptych_training.data.archives import list_photos, load_photos, read_table_of
from diptych_training.errors import DataError


@dataclass(frozen=True)
class Labelled:
    """Pictures uint8 (n, S, S, 3), the class of each as a number (n,), the classes' names, and which are held out."""

    pixels: np.ndarray
    labels: np.ndarray
    names: tuple[str, ...]
    held_out: np.ndarray

    @property
    def training(self) -> tuple[np.ndarray, np.ndarray]:
        """Pictures and labels to learn from."""
        return self.pixels[~self.held_out], self.labels[~self.held_out]

    @property
    def validation(self) -> tuple[np.ndarray, np.ndarray]:
        """Pictures and labels to be measured on."""
        return self.pixels[self.held_out], self.labels[self.held_out]


def labelled_archive(folder: Path, archive: str, pixels: int) -> Labelled:
    """The photos of `flowers` (five kinds, a tenth held out by name) or of `grocery` (shop photos, the data set's own
    split).
    """
    photos = list_photos(folder, [archive])
    if archive == "flowers":
        classes = {
            f"flowers/{row['path']}": row["label"] for row in read_table_of(folder, archive, "flowers/images.csv")
        }
        held_out = {photo.name for photo in photos if photo.split == "validation"}
    elif archive == "grocery":
        tables = {part: read_table_of(folder, archive, f"grocery/{part}.csv") for part in ("train", "val")}
        classes = {f"grocery/{row['path']}": row["class"] for rows in tables.values() for row in rows}
        held_out = {f"grocery/{row['path']}" for row in tables["val"]}
        photos = [photo for photo in photos if photo.name in classes]
    else:
        raise DataError(f"classes are known of flowers and grocery, not of {archive!r}")
    names, labels = number_classes([classes[photo.name] for photo in photos])
    out = np.array([photo.name in held_out for photo in photos])
    return Labelled(load_photos(folder, photos, pixels).pixels, labels, names, out)


def number_classes(classes: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Number the different classes in their order: their names, int64 (n,)."""
    names, labels = np.unique(classes, return_inverse=True)
    return tuple(map(str, names)), labels.astype(np.int64)
