"""What checking a collection found, and what embedding it anew did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VerifyReport:
    """What was looked at and what is wrong; `remarks` are no damage (a file moved away, a cache behind).

    `recall` is measured: the share of the exact 100 candidates that the index in the cache gives; None without one.
    """

    pictures: int
    problems: list[str]
    remarks: list[str]
    recall: float | None = None

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(frozen=True)
class RebuildReport:
    """How many pictures there are, how many were embedded anew, and how many could not be.

    `mended` says whether the database itself was damaged, and is whole again.
    """

    pictures: int
    embedded: int
    failed: int
    mended: bool = False
