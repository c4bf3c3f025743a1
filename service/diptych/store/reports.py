"""The reports of verifying and rebuilding a collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class VerifyReport:
    """The result of a verification; `remarks` are no damage (a file moved away, a cache behind).

    `recall` is measured: the share of the exact 100 candidates that the index in the cache gives; None without one.
    """

    pictures: int
    problems: list[str]
    remarks: list[str]
    recall: float | None = None

    @property
    def healthy(self) -> bool:
        """True if there is no problem."""
        return not self.problems


@dataclass(frozen=True)
class FilesReport:
    """The paths at which files no longer hold the pictures that are stored: of `compared` ones those that have
    `changed`, and those that are `missing` or cannot be read.
    """

    compared: int
    changed: list[str]
    missing: list[str]


@dataclass(frozen=True)
class RebuildReport:
    """The numbers of pictures in all, of those embedded anew, and of those that failed, some of which were removed.

    `compacted` counts those whose tokens were kept in float16, as earlier versions did, and are now in fewer bytes.
    `mended` says whether the database itself was damaged, and is whole again. `spared` are the numbers of pictures that
    were not removed since their disk may be away, by the sign of that. `foreign` counts those that are still of another
    model, with which the collection cannot be searched.
    """

    pictures: int
    embedded: int
    failed: int
    removed: int = 0
    compacted: int = 0
    mended: bool = False
    spared: Mapping[str, int] = field(default_factory=dict)
    foreign: int = 0
