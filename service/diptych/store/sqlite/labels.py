"""Labelled pairs: the answers that people gave, the latest of each pair and question, with those before it to undo."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from diptych.store.records import ANSWERS, Label, NewLabel
from diptych.store.sqlite.connection import Connections
from diptych.store.sqlite.schema import checksum

_LATEST = "(SELECT max(sequence) FROM labels GROUP BY question, a, b)"

logger = logging.getLogger(__name__)


class Labels(Connections):
    """The labels of a database; thread-safe. What a method wrote is on the disk when it returns."""

    def add_labels(self, labels: Sequence[NewLabel]) -> None:
        """Add answers in one transaction; each stands in place of an earlier one to its pair and question.

        Raises ValueError for an unknown answer, and for a picture with itself.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        rows = [_row(label, now) for label in labels]
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO labels (a, b, question, answer, added, digest) VALUES (?,?,?,?,?,?)",
                [(*row, checksum(*row)) for row in rows],
            )

    def take_back_label(self, a: str, b: str, question: str) -> bool:
        """Forget the latest answer about a pair, so that the one before it, if any, stands again; False if there is
        none.
        """
        with self._transaction() as connection:
            return bool(
                connection.execute(
                    "DELETE FROM labels WHERE sequence="
                    "(SELECT max(sequence) FROM labels WHERE question=? AND a=? AND b=?)",
                    (question, *sorted((a, b))),
                ).rowcount
            )

    def labels(self, question: str | None = None) -> list[Label]:
        """The latest answers about all pairs, to one question or to any, in the order they were given.

        Damaged ones are left out, with a warning.
        """
        query = (
            "SELECT sequence, a, b, question, answer, l.added, digest, p.path, q.path FROM labels l"
            " LEFT JOIN pictures p ON p.id=a LEFT JOIN pictures q ON q.id=b"
            f" WHERE sequence IN {_LATEST} AND (? IS NULL OR question=?) ORDER BY sequence"
        )
        whole = []
        for sequence, *row, digest, path_a, path_b in self._all(query, (question, question)):
            if checksum(*row) == digest:
                whole.append(Label(*row, path_a=path_a, path_b=path_b))
            else:
                logger.warning("%s: label %d is damaged and left out; label its pair again", self.path.parent, sequence)
        return whole

    def damaged_labels(self) -> list[int]:
        """The numbers of the labels that have another checksum than they were written with."""
        found = self._all("SELECT sequence, a, b, question, answer, added, digest FROM labels ORDER BY sequence")
        return [sequence for sequence, *row, digest in found if checksum(*row) != digest]


def _row(label: NewLabel, now: str) -> tuple[str, ...]:
    if label.answer not in ANSWERS:
        raise ValueError(f"expected an answer of {', '.join(map(repr, ANSWERS))}, got {label.answer!r}")
    if label.a == label.b:
        raise ValueError(f"a label is of two pictures, and both are {label.a!r}")
    return (*sorted((label.a, label.b)), label.question, label.answer, label.added or now)
