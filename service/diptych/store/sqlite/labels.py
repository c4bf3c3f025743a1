"""Labelled pairs: the answers that people gave, the latest of each pair and question, with those before it to undo."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from diptych.store.records import ANSWERS, Answer, Label, NewLabel
from diptych.store.sqlite.schema import Connections, row_checksum
from diptych_runtime.errors import ArgumentError

_ALL = (
    "SELECT sequence, a, b, question, answer, l.added, digest, p.path, q.path FROM labels l"
    " LEFT JOIN pictures p ON p.id=a LEFT JOIN pictures q ON q.id=b"
)
_LATEST = "sequence IN (SELECT max(sequence) FROM labels WHERE ? IS NULL OR question=? GROUP BY question, a, b)"
_IS_WHOLE = "crc32(a, b, question, answer, added)=digest"
_LAST = 2**63 - 1

logger = logging.getLogger(__name__)


class Labels(Connections):
    """The labels of a database; thread-safe. What a method wrote is on the disk when it returns."""

    def add_labels(self, labels: Sequence[NewLabel]) -> None:
        """Add answers in one transaction, in place of earlier ones to their pairs. Raises ArgumentError."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        rows = [_make_row(label, now) for label in labels]
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO labels (a, b, question, answer, added, digest) VALUES (?,?,?,?,?,?)",
                [(*row, row_checksum(*row)) for row in rows],
            )

    def take_back_label(self, a: str, b: str, question: str) -> bool:
        """Forget the latest answer about a pair: the one before it stands again. False if there is none."""
        with self._transaction() as connection:
            return bool(
                connection.execute(
                    "DELETE FROM labels WHERE sequence="
                    "(SELECT max(sequence) FROM labels WHERE question=? AND a=? AND b=?)",
                    (question, *sorted((a, b))),
                ).rowcount
            )

    def labels(self, question: str | None = None) -> list[Label]:
        """The latest answers about all pairs, to one question or any; damaged ones are left out, with a warning."""
        return self._read_whole(self._fetch_all(f"{_ALL} WHERE {_LATEST} ORDER BY sequence", (question, question)))

    def label_pages(self, size: int, question: str | None = None) -> Iterator[list[Label]]:
        """The `labels` in pages of `size`; answers that are given meanwhile are not among them."""
        ((last,),) = self._fetch_all("SELECT coalesce(max(sequence), 0) FROM labels")
        after: int | None = 0
        while after is not None:
            page, after = self.label_page(size, after, question, last)
            yield page

    def label_page(
        self, limit: int, after: int = 0, question: str | None = None, last: int = _LAST
    ) -> tuple[list[Label], int | None]:
        """A page of the `labels` behind the number `after`, as of `last`, and the `after` of the next page or None."""
        # Of each row by itself whether it is the latest: a page takes as long as it has rows.
        newer = "SELECT 1 FROM labels n WHERE n.question=l.question AND n.a=l.a AND n.b=l.b"
        found = self._fetch_all(
            f"{_ALL} WHERE sequence>? AND sequence<=? AND (? IS NULL OR question=?)"
            f" AND NOT EXISTS ({newer} AND n.sequence>l.sequence AND n.sequence<=?) ORDER BY sequence LIMIT ?",
            (after, last, question, question, last, limit + 1),
        )
        more, found = len(found) > limit, found[:limit]
        return self._read_whole(found), found[-1]["sequence"] if more else None

    def label_of(self, a: str, b: str, question: str) -> Label | None:
        """The latest answer about a pair to a question; None if there is none, or it is damaged."""
        query = f"{_ALL} WHERE question=? AND a=? AND b=? ORDER BY sequence DESC LIMIT 1"
        return next(iter(self._read_whole(self._fetch_all(query, (question, *sorted((a, b)))))), None)

    def label_counts(self, question: str | None = None) -> Counter[Answer]:
        """The number of `labels` with each answer."""
        query = f"SELECT answer, count(*) FROM labels WHERE {_LATEST} AND {_IS_WHOLE} GROUP BY answer"
        return Counter(dict(map(tuple, self._fetch_all(query, (question, question)))))

    def labelled_pairs(self, question: str) -> list[tuple[str, str]]:
        """The ids of the pairs that `labels` are about, the lower first."""
        query = f"SELECT a, b FROM labels WHERE {_LATEST} AND {_IS_WHOLE} ORDER BY sequence"
        return [(a, b) for a, b in self._fetch_all(query, (question, question))]

    def _read_whole(self, rows: Iterable[sqlite3.Row]) -> list[Label]:
        whole = []
        for sequence, *row, digest, path_a, path_b in rows:
            if row_checksum(*row) == digest:
                whole.append(Label(*row, path_a=path_a, path_b=path_b))
            else:
                logger.warning("%s: label %d is damaged and left out; label its pair again", self.path.parent, sequence)
        return whole

    def damaged_labels(self) -> list[int]:
        """The numbers of the labels that have another checksum than they were written with."""
        found = self._fetch_all("SELECT sequence, a, b, question, answer, added, digest FROM labels ORDER BY sequence")
        return [sequence for sequence, *row, digest in found if row_checksum(*row) != digest]


def _make_row(label: NewLabel, now: str) -> tuple[str, ...]:
    if label.answer not in ANSWERS:
        raise ArgumentError(f"expected an answer of {', '.join(map(repr, ANSWERS))}, got {label.answer!r}")
    if label.a == label.b:
        raise ArgumentError(f"a label is of two pictures, and both are {label.a!r}")
    return (*sorted((label.a, label.b)), label.question, label.answer, label.added or now)
