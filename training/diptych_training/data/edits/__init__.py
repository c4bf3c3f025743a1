"""Edits of picture files, as people make them: how copies are made to measure with. Pillow and NumPy only, and not what
training sees.

An edit is a function (picture, random numbers) -> picture, RGB in and out. `EDITS` are the seven of the repertoire
*easy*, one to three at once; *hard* has them and thirty further ones, one to five at once, and they may bring other
photos and stickers in (`Props`).
"""

import csv
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from diptych_runtime.atomic import replacing_folder
from diptych_runtime.decoder import open_picture
from diptych_runtime.folders import pictures_below
from diptych_training.data.edits.props import Props, read_stickers
from diptych_training.data.edits.repertoires import EDITS, Edit, edit_hard, edit_picture, hard_edits
from diptych_training.errors import DataError

__all__ = [
    "EDITS",
    "REPERTOIRES",
    "Edit",
    "Props",
    "edit_hard",
    "edit_picture",
    "hard_edits",
    "picture_names",
    "read_stickers",
    "write_queries",
]

REPERTOIRES = ("easy", "hard")

EditPicture = Callable[[Image.Image, np.random.Generator], tuple[Image.Image, list[str]]]


def write_queries(
    references: Path,
    queries: Path,
    *,
    count: int,
    seed: int = 0,
    among: Sequence[str] | None = None,
    repertoire: str = "easy",
    distractors: int = 0,
    distractors_from: Path | None = None,
    backgrounds: Path | None = None,
    emoji: Path | None = None,
) -> list[dict[str, str]]:
    """Write edited copies of `count` photos of a folder, and `truth.csv` (query, reference, edits) beside them.

    `among` restricts the choice to these paths below `references`. `distractors` further queries, with an empty
    reference, are edited pictures of the folder `distractors_from`. The repertoire *hard* pastes pictures into those of
    the folder `backgrounds`, and sticks on those of the ZIP archive `emoji`; without these it draws its own. No picture
    may be in two of the folders. The same seed writes the same files, and distractors change none of the others.

    Raises DataError for what cannot be chosen from, and before anything is written.
    """
    names = sorted(among) if among is not None else picture_names(references)
    if len(names) < count:
        raise DataError(f"{count} queries need as many photos to choose from, got {len(names)} in {references}")
    others = _list_distractors(distractors, distractors_from)
    _require_disjoint(references, {"distractors": distractors_from, "backgrounds": backgrounds})
    edit = _choose_editor(repertoire, backgrounds, emoji)
    if queries.exists() and any(queries.iterdir()):
        raise DataError(f"{queries} is not empty; name a new folder for the edited queries")
    rng = np.random.default_rng(seed)
    truth = []
    with replacing_folder(queries) as fresh:

        def write(source: Path, reference: str) -> None:
            edited, edits = edit(open_picture(source), rng)
            query = f"{len(truth):05d}.jpg"
            # The draw of the quality would change what a seed of the easy ones writes.
            edited.save(fresh / query, "JPEG", quality=88 if repertoire == "easy" else int(rng.integers(50, 96)))
            truth.append({"query": query, "reference": reference, "edits": "+".join(edits)})

        for name in rng.permutation(names)[:count]:
            write(references / name, str(name))
        for name in rng.permutation(others)[:distractors]:
            assert distractors_from is not None
            write(distractors_from / name, "")
        with (fresh / "truth.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, ["query", "reference", "edits"])
            writer.writeheader()
            writer.writerows(truth)
    return truth


def picture_names(folder: Path) -> list[str]:
    """Return the pictures below a folder, as sorted paths relative to it."""
    if not folder.is_dir():
        raise DataError(f"expected a folder of pictures, got {folder}")
    return sorted(path.relative_to(folder).as_posix() for path in pictures_below(folder))


def _list_distractors(distractors: int, folder: Path | None) -> list[str]:
    if distractors < 0:
        raise DataError(f"expected a number of distractors of 0 or more, got {distractors}")
    if (distractors > 0) != (folder is not None):
        came = f"{distractors} distractors from {'no folder' if folder is None else folder}"
        raise DataError(f"distractors need a number and a folder of pictures to make them from, got {came}")
    names = picture_names(folder) if folder is not None else []
    if len(names) < distractors:
        raise DataError(f"{distractors} distractors need as many pictures to choose from, got {len(names)} in {folder}")
    return names


def _require_disjoint(references: Path, others: dict[str, Path | None]) -> None:
    """Refuse folders with a picture in common, by the files' real paths: one folder in another, or a link into it."""
    given = {role: folder for role, folder in others.items() if folder is not None}
    seen: dict[Path, str] = {}
    for role, folder in ({"references": references} | given if given else {}).items():
        real = {(folder / name).resolve() for name in picture_names(folder)}
        for path in sorted(real & seen.keys())[:1]:
            raise DataError(
                f"expected no picture of the {seen[path]} among the {role}, got {path} in {folder}; "
                f"name another folder for the {role}, neither the same nor one in the other"
            )
        seen |= dict.fromkeys(real, role)


def _choose_editor(repertoire: str, backgrounds: Path | None, emoji: Path | None) -> EditPicture:
    if repertoire not in REPERTOIRES:
        raise DataError(f"no repertoire is called {repertoire!r}; known are {', '.join(REPERTOIRES)}")
    if repertoire == "easy":
        given = [name for name, value in (("backgrounds", backgrounds), ("emoji", emoji)) if value is not None]
        if given:
            raise DataError(f"the repertoire easy uses no {' and no '.join(given)}; choose the repertoire hard")
        return edit_picture
    photos = []
    if backgrounds is not None:
        photos = [backgrounds / name for name in picture_names(backgrounds)]
        if not photos:
            raise DataError(f"expected backgrounds in {backgrounds}, got no picture; name a folder of photos")
    return partial(edit_hard, props=Props(photos, read_stickers(emoji) if emoji is not None else ()))
