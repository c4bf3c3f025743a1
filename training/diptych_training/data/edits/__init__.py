"""Edits of picture files, as people make them: how copies are made to measure with. They need Pillow and NumPy only;
training uses other edits.

An edit is a function (picture, random numbers) -> picture, RGB in and out. `EDITS` are the seven of the repertoire
*easy*, one to three at once; *hard* has them and thirty further ones, one to five at once, and they may bring other
photos and stickers in (`Props`).
"""

import csv
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from diptych_runtime.atomic import replacing_folder
from diptych_runtime.decoder import open_picture
from diptych_runtime.folders import pictures_below
from diptych_training.data.edits.props import Props
from diptych_training.data.edits.repertoires import EDITS, edit_hard, edit_picture, hard_edits
from diptych_training.errors import DataError

__all__ = ["EDITS", "REPERTOIRES", "Props", "edit_hard", "edit_picture", "hard_edits", "picture_names", "write_queries"]

REPERTOIRES = ("easy", "hard")


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
    props: Props | None = None,
) -> list[dict[str, str]]:
    """Write edited copies of `count` photos of a folder, and `truth.csv` (query, reference, edits) beside them.

    `among` restricts the choice to these paths below `references`. `distractors` further queries, with an empty
    reference, are edited pictures of the folder `distractors_from`, of which none may be among the references. The
    repertoire *hard* pastes and sticks on the `props`, by default drawn ones. The same seed writes the same files, and
    distractors change none of the others.

    Raises DataError for what cannot be chosen from, and before anything is written.
    """
    names = sorted(among) if among is not None else picture_names(references)
    if len(names) < count:
        raise DataError(f"{count} queries need as many photos to choose from, got {len(names)} in {references}")
    others = _list_distractors(references, distractors, distractors_from)
    if repertoire not in REPERTOIRES:
        raise DataError(f"no repertoire is called {repertoire!r}; known are {', '.join(REPERTOIRES)}")
    if queries.exists() and any(queries.iterdir()):
        raise DataError(f"{queries} is not empty; name a new folder for the edited queries")
    edit = edit_picture if repertoire == "easy" else partial(edit_hard, props=props or Props())
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


def _list_distractors(references: Path, distractors: int, folder: Path | None) -> list[str]:
    """List the pictures to make distractors from; none may be among the references, by the files' real paths."""
    names = picture_names(folder) if folder is not None else []
    if distractors < 0 or (distractors > 0) != (folder is not None) or len(names) < distractors:
        raise DataError(f"{distractors} distractors need a folder of as many pictures, got {len(names)} in {folder}")
    if folder is not None:
        known = {(references / name).resolve() for name in picture_names(references)}
        if shared := sorted(known & {(folder / name).resolve() for name in names}):
            raise DataError(
                f"expected no reference among the distractors, got {shared[0]}; name another folder for them"
            )
    return names
