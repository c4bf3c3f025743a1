"""Labelled pairs as CSV: one's own answers out of a collection, into another, and into a calibration."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from typing import TextIO, cast

from diptych.errors import LabellingError
from diptych.pictures.content import picture_id, read_bytes
from diptych.pictures.sources import picture_limits
from diptych.pictures.walk import full_path
from diptych.store.records import ANSWERS, Answer, Label, NewLabel
from diptych.store.sqlite.backend import SqliteBackend
from diptych_runtime.calibration.questions import ASKED, COPY, MATCH
from diptych_runtime.errors import PictureError
from diptych_runtime.paths import existing_form, other_forms

COLUMNS = ("image_a", "image_b", "question", "answer", "added", "id_a", "id_b")

_OTHER_NAMES = {"image_a": "path_a", "image_b": "path_b", "answer": "label"}
_YES, _NO = ("same", "1", "true", "yes"), ("different", "0", "false", "no", "not the same")
_ANSWERS: Mapping[str, Answer] = {
    **dict.fromkeys(_YES, "same"),
    **dict.fromkeys(_NO, "different"),
    **dict.fromkeys(("cannot tell", "?"), "cannot tell"),
}
_ID = re.compile("[0-9a-f]{32}")
_SHOWN = 64  # characters of a wrong cell
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")  # with which a cell begins that a spreadsheet computes, or hides


@dataclass(frozen=True)
class LabelledRow:
    """A row of a table: two pictures by path, by id or by both ("" where one is missing), and the answer about them."""

    number: int
    path_a: str
    path_b: str
    id_a: str
    id_b: str
    question: str
    answer: Answer
    added: str | None


def csv_texts(pages: Iterable[Iterable[Label]]) -> Iterator[str]:
    """CSV with `COLUMNS`: the header, and a text with a line for each label of every page.

    A text that a spreadsheet would take for a formula begins with an apostrophe, which `read_labels` takes off.
    """
    yield ",".join(COLUMNS) + "\n"
    for page in pages:
        stream = StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        for one in page:
            cells = one.path_a or "", one.path_b or "", one.question, one.answer, one.added, one.a, one.b
            writer.writerow(f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells)
        yield stream.getvalue()


def write_labels(labels: Iterable[Label], stream: TextIO) -> None:
    """Write labels as `csv_texts` has them."""
    for text in csv_texts([labels]):
        stream.write(text)


def read_labels(stream: Iterable[str], name: str, question: str = COPY) -> Iterator[LabelledRow]:
    """Read rows with two pictures and an answer, to this question where there is no column for it.

    The columns are `COLUMNS`, or path_a, path_b and label in place of image_a, image_b and answer. Rows without an
    answer are left out. Raises LabellingError, which names the table and the row.
    """
    try:
        rows = csv.DictReader(stream)
        there = [column or "" for column in rows.fieldnames or ()]
        found = {column: column if column in there else _OTHER_NAMES.get(column, "") for column in COLUMNS}
        by_path = {found["image_a"], found["image_b"]} <= set(there)
        if found["answer"] not in there or not (by_path or {"id_a", "id_b"} <= set(there)):
            raise LabellingError(
                f"{name} needs the columns image_a, image_b and answer; it has {', '.join(there) or 'none'}"
            )
        for number, row in enumerate(rows, 1):
            cells = {column: _read_cell(row.get(source)) for column, source in found.items()}
            if cells["answer"]:
                yield _read_row(number, cells, name, question)
    except (csv.Error, UnicodeDecodeError) as error:
        raise LabellingError(f"{name} cannot be read as CSV in UTF-8: {error}") from None


def import_labels(store: SqliteBackend, rows: Iterable[LabelledRow]) -> tuple[int, int]:
    """Add the answers of a table to a collection, in one transaction; return how many were new and how many known.

    A picture is the one with the row's id, or else the stored one at its path or, if that is not one, the file there;
    it need not be in the collection (yet). Rows that repeat each other count once. Raises LabellingError for pictures
    that cannot be known and for rows that contradict each other; then nothing is written.
    """
    known = {(*one.pair, one.question): one.answer for one in store.labels()}
    said: dict[tuple[str, str, str], LabelledRow] = {}
    new: list[NewLabel] = []
    same = 0
    for row in rows:
        a, b = sorted(_find_id(store, row, id, path) for id, path in ((row.id_a, row.path_a), (row.id_b, row.path_b)))
        if a == b:
            raise LabellingError(f"row {row.number}: both pictures are the same file; a label is of two")
        before = said.setdefault((a, b, row.question), row)
        if before.answer != row.answer:
            both = f"one says {before.answer} and the other {row.answer}"
            raise LabellingError(f"rows {before.number} and {row.number} contradict each other: {both}; remove one")
        if before is not row:
            continue
        if known.get((a, b, row.question)) == row.answer:
            same += 1
            continue
        new.append(NewLabel(a, b, row.question, row.answer, row.added))
    store.add_labels(new)
    return len(new), same


def _read_row(number: int, cells: Mapping[str, str], name: str, question: str) -> LabelledRow:
    answer, asked = _ANSWERS.get(cells["answer"].strip().lower()), cells["question"] or question
    paths, ids = (cells["image_a"], cells["image_b"]), (cells["id_a"], cells["id_b"])
    checks = [
        (answer is not None, cells["answer"], f"an answer of {', '.join(ANSWERS)}, or 1 or 0"),
        (asked in (*ASKED, MATCH), asked, f"a question of {', '.join(ASKED)}"),
        (all(map(_ID.fullmatch, filter(None, ids))), ", ".join(ids), "ids of 32 hexadecimal digits"),
        (not cells["added"] or _is_time(cells["added"]), cells["added"], "a time as 2026-01-31T12:00:00+00:00"),
        (all(path or id for path, id in zip(paths, ids, strict=True)), ", ".join(paths), "two pictures"),
    ]
    for is_right, got, expected in checks:
        if not is_right:
            raise LabellingError(f"row {number} of {name}: expected {expected}, got {got[:_SHOWN]!r}")
    return LabelledRow(number, *paths, *ids, asked, cast("Answer", answer), cells["added"] or None)


def _find_id(store: SqliteBackend, row: LabelledRow, id: str, path: str) -> str:
    if id:
        return id
    path = existing_form(path)
    whole = full_path(path)
    forms = (whole, *other_forms(whole))
    stored = [id for form in forms for id, place in store.under(form).items() if place == form]
    if len(stored) == 1:
        return stored[0]
    try:
        return picture_id(hashlib.sha256(read_bytes(path, picture_limits())).hexdigest())
    except PictureError as error:
        there = f"the path of {len(stored)} pictures of the collection" if stored else "not in the collection"
        raise LabellingError(f"row {row.number}: {path} is {there}, and as a file: {error}") from None


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _read_cell(value: object) -> str:
    """Read a cell, without the apostrophe that keeps a spreadsheet from computing it."""
    text = value if isinstance(value, str) else ""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text
