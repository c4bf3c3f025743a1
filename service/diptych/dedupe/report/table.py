"""Groups as a table or as JSON: a line a picture, the keeper of a group first."""

from __future__ import annotations

import csv
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from diptych.dedupe.duplicates import Duplicates, Member
from diptych.errors import DedupeError
from diptych_runtime.atomic import replacing_stream

_MATCH = ("relevance_score", "verdict", "method", "closer_look", "exact", "reference", "kept_because", "edit")
_FILE = ("width", "height", "bytes", "format", "exif", "frames")
COLUMNS = ("group", "path", "keeper", "goes", *_MATCH, *_FILE, "time", "id")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a cell begins that a spreadsheet computes


def list_rows(found: Duplicates) -> Iterator[dict[str, Any]]:
    """A row with `COLUMNS` for every picture of a group, groups numbered from 1 and the one to keep first.

    The score is the one to that picture, and `method` the way by which they match: the *digest* of the same bytes, the
    *network*, or *phash*. `keeper` marks it and every other for which one goes, and `goes` those that go.
    """
    for number, group in enumerate(found.groups, 1):
        needed = {group.keeper.path, *(one.replaced_by.path for one in group.others if one.replaced_by is not None)}
        keeper = Member(group.keeper, 1.0, True, kept_because=", ".join(group.kept_because))
        yield _make_row(number, keeper, None, needed)
        for member in group.others:
            yield _make_row(number, member, "digest" if member.exact else found.method, needed)


def summarize_groups(found: Duplicates, refused: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Counts as JSON values: what can be removed, the bytes that would be free, what is left to a person."""
    others = [member for group in found.groups for member in group.others if member.replaced_by is not None]
    return {
        "method": found.method,
        "max_distance": found.max_distance,
        "question": found.question,
        "pictures": len(found.pictures),
        "references": sum(picture.reference for picture in found.pictures),
        "groups": len(found.groups),
        "could_go": len(others),
        "exact": sum(one.replaced_by.id == one.picture.id for one in others if one.replaced_by),
        "to_look_at": found.undecided,
        "unhashed": found.unhashed,
        "bytes": sum(member.picture.bytes for member in others),
        "threshold": found.threshold,
        "verdicts": found.verdicts,
        "alarm_rate": found.alarm_rate,
        "pairs": found.scored,
        "pairs_scored": found.computed,
        "refused": list(refused),
    }


def document(found: Duplicates, refused: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The counts, and the `rows`, as JSON values."""
    return {**summarize_groups(found, refused), "rows": list(list_rows(found))}


def write_table(
    path: Path, found: Duplicates, refused: Sequence[Mapping[str, str]], *, spreadsheet: bool = False
) -> None:
    """Write the groups as .csv or .json, by the ending; the file appears as a whole. Raises DedupeError.

    For a `spreadsheet`, texts in the .csv that it would take for formulas begin with an apostrophe.
    """
    try:
        with replacing_stream(path) as stream:
            text = TextIOWrapper(stream, "utf-8", newline="")
            if path.suffix.lower() == ".csv":
                writer = csv.writer(text, lineterminator="\n")
                writer.writerow(COLUMNS)
                for row in list_rows(found):
                    writer.writerow(_format_cell(value, spreadsheet=spreadsheet) for value in row.values())
            else:
                json.dump(document(found, refused), text, ensure_ascii=False, indent=1)
            text.flush()
            text.detach()
    except OSError as error:
        raise write_error(path, error) from None


def write_error(path: Path, error: OSError) -> DedupeError:
    """The error for an output that could not be written."""
    return DedupeError(f"{path} cannot be written: {error.strerror}; nothing is left of it")


def _format_cell(value: Any, *, spreadsheet: bool) -> Any:
    if isinstance(value, bool):
        return int(value)
    if spreadsheet and isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _make_row(group: int, member: Member, method: str | None, needed: Container[str]) -> dict[str, Any]:
    """The row of a picture that matches by this method; those `needed` by path stand for others."""
    picture = member.picture
    time = "" if picture.time is None else datetime.fromtimestamp(picture.time, UTC).isoformat(timespec="seconds")
    said = (picture.path in needed, member.replaced_by is not None, member.relevance_score, member.verdict, method)
    said += (member.closer_look, member.exact, picture.reference, member.kept_because, member.edit)
    facts = (getattr(picture, name) for name in _FILE)
    return dict(zip(COLUMNS, (group, picture.path, *said, *facts, time, picture.id), strict=True))
