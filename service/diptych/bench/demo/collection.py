"""The demonstration collection: scenes drawn by the program, many of them look-alikes, and edited copies of some."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
from PIL import Image

from diptych.bench.demo.drawing import SCENES, Canvas
from diptych.bench.demo.edits import edit_copy
from diptych.console import Console, format_count
from diptych_runtime.atomic import temporary_path, write_atomic
from diptych_runtime.errors import DiptychError

SERIES = 5  # pictures that share palette and composition
SIZES = [(480, 360), (480, 320), (360, 480), (400, 400), (448, 336)]
QUALITY = 88
STORE = "store"  # the folder beside the pictures that `make run` indexes into


class DemonstrationError(DiptychError):
    """A demonstration collection that cannot be drawn where it was asked for."""

    code = "invalid_folder"


@dataclass(frozen=True)
class Picture:
    """One file to draw: a member of a series of look-alikes, or an edited copy of another picture."""

    path: Path
    series: int
    member: int
    kind: str
    original: Path | None = None


def draw_collection(folder: str | Path, *, count: int = 240, seed: int = 0, quiet: bool = True) -> list[Path]:
    """Draw `count` JPEG pictures (320 to 480 pixels a side) into `folder`/photos and return their paths.

    About one in twenty is an edited copy of another. `folder`/queries gets edited copies of an eighth of the others
    and a few scenes that the collection does not have; `folder`/truth.csv (query, reference; file names) says which is
    which, with an empty reference for those. It is written last, so a folder that has it is complete. The same count
    and seed give the same pictures.

    Raises DemonstrationError for a count below 1 and for a folder with files that this call would not write.
    """
    folder = Path(folder)
    if count < 1:
        raise DemonstrationError(f"expected a count of at least 1 picture, got {count}")
    photos, queries = plan_pictures(folder, count, seed)
    truth = folder / "truth.csv"
    pictures = [*photos, *queries]
    _check_folder(folder, {*(picture.path for picture in pictures), truth})
    for name in ("photos", "queries"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    truth.unlink(missing_ok=True)
    with Console(quiet=quiet).progress(total=len(pictures), unit="picture", desc="drawing") as bar:
        for picture in pictures:
            _write_picture(picture, seed)
            bar.update()
    table = StringIO()
    writer = csv.writer(table)
    writer.writerow(["query", "reference"])
    writer.writerows((query.path.name, query.original.name if query.original else "") for query in queries)
    write_atomic(truth, table.getvalue().encode())
    return [picture.path for picture in photos]


def plan_pictures(folder: Path, count: int, seed: int) -> tuple[list[Picture], list[Picture]]:
    """Plan the pictures of the collection and the queries, without drawing anything."""
    rng = np.random.default_rng([seed, 0])
    kinds = list(SCENES)
    doubles, distractors = count // 20, max(1, count // 40)
    scenes = []
    for number in range(count - doubles + distractors):
        series, member = divmod(number, SERIES)
        kind = kinds[series % len(kinds)]
        name = f"{kind}-{series // len(kinds) + 1:02d}{'abcdefghij'[member]}.jpg"
        scenes.append(Picture(folder / "photos" / name, series, member, kind))
    shuffled = [scenes[i] for i in rng.permutation(len(scenes))]
    strangers, originals = shuffled[:distractors], shuffled[distractors:]
    copied, asked = originals[:doubles], originals[doubles:][: max(1, (count - doubles) // 8)]
    kept = {picture.path for picture in originals}
    copies = [_plan_copy(picture, folder / "photos" / f"{picture.path.stem}-copy.jpg") for picture in copied]
    queries = [_plan_copy(picture, folder / "queries" / f"{picture.path.stem}-edited.jpg") for picture in asked]
    others = [Picture(folder / "queries" / p.path.name, p.series, p.member, p.kind) for p in strangers]
    photos = [picture for picture in scenes if picture.path in kept] + copies
    return photos, sorted(queries + others, key=lambda query: query.path)


def draw_scenes(count: int, seed: int = 0) -> Iterator[Image.Image]:
    """Scenes of every kind in turn, each another one, as the demonstration collection has them."""
    kinds = list(SCENES)
    for number in range(count):
        yield _draw_picture(Picture(Path(), number, 0, kinds[number % len(kinds)]), seed)


def _plan_copy(picture: Picture, path: Path) -> Picture:
    return Picture(path, picture.series, picture.member, picture.kind, picture.path)


def _check_folder(folder: Path, planned: set[Path]) -> None:
    if folder.exists() and not folder.is_dir():
        raise DemonstrationError(f"expected a folder, but {folder} is a file; name a new or empty folder")
    ours = planned | {folder / "photos", folder / "queries", folder / STORE} | set(map(temporary_path, planned))
    foreign = sorted(
        path for part in (".", "photos", "queries") for path in folder.glob(f"{part}/*") if path not in ours
    )
    if foreign:
        raise DemonstrationError(
            f"{folder} holds {format_count(len(foreign), 'file')} that the demonstration collection does not have, "
            f"such as {foreign[0].name}; name a new or empty folder (nothing was written)"
        )


def _write_picture(picture: Picture, seed: int) -> None:
    """Draw a picture into its file, whole or not at all."""
    encoded = BytesIO()
    _draw_picture(picture, seed).save(encoded, "JPEG", quality=QUALITY)
    write_atomic(picture.path, encoded.getvalue())


def _draw_picture(picture: Picture, seed: int) -> Image.Image:
    """Draw one picture from its own random numbers, so that any of them can be drawn alone."""
    layout = np.random.default_rng([seed, 1, picture.series])
    details = np.random.default_rng([seed, 2, picture.series, picture.member])
    width, height = SIZES[layout.integers(len(SIZES))]
    canvas = Canvas(width, height, details)
    SCENES[picture.kind](canvas, layout)
    image = canvas.finish()
    if picture.original is None:
        return image
    indexed = picture.path.parent.name == "photos"
    return edit_copy(image, np.random.default_rng([seed, 3 + indexed, picture.series, picture.member]))
