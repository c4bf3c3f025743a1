"""Labelled pairs as a table, with the pictures that they name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from diptych_runtime.calibration.questions import ASKED, COPY, resolve_question
from diptych_runtime.errors import ArtifactError
from diptych_training.data.csv import LABELS, read_table
from diptych_training.errors import DataError

ANSWERS: Mapping[str, bool | None] = {
    **LABELS,
    "same": True,
    "different": False,
    "not the same": False,
    "cannot tell": None,
    "?": None,
    "": None,
}
_HIDING = ("=", "+", "-", "@", "\t", "\r", "'")  # with an apostrophe before it a spreadsheet does not compute a cell


@dataclass(frozen=True)
class Labels:
    """Labelled pairs: `table` is a CSV with the columns image_a, image_b and answer (same, different or cannot tell) or
    label (1 or 0), as `diptych label --export` writes it; its paths count from `root`, or from the CSV's own folder.
    Rows without a question answer `question`.
    """

    table: str = field(metadata={"needs": ": the CSV that `diptych label --export` wrote"})
    root: str = ""
    question: str = COPY

    def __post_init__(self) -> None:
        if self.question not in ASKED:
            raise ValueError(f"labels.question must be one of {', '.join(ASKED)}, got {self.question!r}")


@dataclass(frozen=True)
class Table:
    """Pairs `sides` int64 (P, 2), places among the `names` of pictures below `root`; the `questions` (P,) that
    they answer, and whether they show the `same` (P,). `left_out` rows name no file or give no answer.
    """

    root: Path
    names: Sequence[str]
    sides: np.ndarray
    questions: Sequence[str]
    same: np.ndarray
    left_out: int

    @property
    def paths(self) -> list[Path]:
        """The files of the pictures."""
        return [self.root / name for name in self.names]


def read_labels(labels: Labels, questions: Sequence[str], model: str) -> Table:
    """Read the table of a recipe; the last row of a pair and question counts. Raises `DataError`, which names the row,
    for an unknown answer or question.
    """
    path = Path(labels.table)
    rows = read_table(path, ["image_a", "image_b"])
    column = next((name for name in ("answer", "label") if rows and name in rows[0]), None)
    if rows and column is None:
        raise DataError(f"{path} needs a column answer (same, different, cannot tell) or label (1 or 0)")
    found, left_out = dict[tuple[str, str, str], bool](), 0
    for number, row in enumerate(rows, 2):
        a, b = sorted(_strip_apostrophe(row[side]) for side in ("image_a", "image_b"))
        said = (row[column or ""] or "").strip().lower()
        if said not in ANSWERS:
            raise DataError(f"{path}, line {number}: expected same, different, cannot tell, 1 or 0, got {said!r}")
        try:
            question = resolve_question(row.get("question") or labels.question, questions, model)
        except ArtifactError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
        same = ANSWERS[said]
        if not a or same is None:
            left_out += 1
        elif a == b:
            raise DataError(f"{path}, line {number}: both pictures are {a}; a label is of two")
        else:
            found[a, b, question] = same
    names = sorted({name for a, b, _ in found for name in (a, b)})
    place = {name: number for number, name in enumerate(names)}
    sides = np.array([(place[a], place[b]) for a, b, _ in found], np.int64).reshape(-1, 2)
    root = Path(labels.root) if labels.root else path.parent
    return Table(root, names, sides, [key[2] for key in found], np.array([*found.values()], bool), left_out)


def _strip_apostrophe(cell: str) -> str:
    """A cell without the apostrophe that keeps a spreadsheet from computing it."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_HIDING) else cell
