"""The manifest of a job: written once, when everything that it needs to know of its table is in the folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any
from uuid import uuid4

from diptych.errors import BatchError
from diptych_runtime.atomic import replacing_stream, write_atomic
from diptych_runtime.parsing import parse_json

FORMAT = 4
MANIFEST, NAMES, PAIRS, SCORED_BY = "job.json", "names.sqlite", "pairs.u4", "scored-by.txt"
LOCK, UNFINISHED = "lock", "output.tmp"
_PART = r"(pictures|pairs)-\d{6,}(-[0-9a-f]{32})?\.part|tokens-\d{6,}(-[0-9a-f]{32})?\.f16"
_FIXED = "|".join(map(re.escape, (MANIFEST, NAMES, f"{NAMES}-journal", PAIRS, SCORED_BY, LOCK, UNFINISHED)))
# Also what a write that was broken off leaves beside it, and NFS of a file that was removed while it was open.
_LEFT = rf"\.({_FIXED}|{_PART})(\.\w+)?\.tmp|\.{re.escape(SCORED_BY)}\.[0-9a-f]{{32}}|\.nfs\w+"
_OURS = re.compile(rf"{_FIXED}|{_PART}|{_LEFT}")
# Of a part: a few seconds of work on a small machine. Many more than these parts a job need not have.
_PICTURES, _PAIRS, _PARTS, _LEAST = 512, 4096, 4096, 256
_LOOKED_AT = 512  # of pairs that may get a closer look


@dataclass(frozen=True)
class Step:
    """One of the two steps of a job, `count` items of which each part makes `size`; `job` is the job's id."""

    name: str
    count: int
    size: int
    job: str = ""

    @property
    def parts(self) -> int:
        """The number of parts."""
        return -(-self.count // self.size)

    def part_bounds(self, number: int) -> tuple[int, int]:
        """The first item of a part and the one behind its last."""
        return number * self.size, min((number + 1) * self.size, self.count)

    def part_file(self, number: int) -> str:
        """The name of the file that is there once the part is done."""
        return f"{self.name}-{self.part_tag(number)}.part"

    def part_tag(self, number: int) -> str:
        """The number of a part and the id of its job: a worker that outlives another job changes nothing here."""
        return f"{number:06d}-{self.job}" if self.job else f"{number:06d}"

    def find_done_parts(self, folder: Path) -> set[int]:
        """Find the numbers of the parts whose files are in the folder."""
        there = {path.name for path in folder.iterdir()}
        return {number for number in range(self.parts) if self.part_file(number) in there}

    def count_items(self, numbers: set[int]) -> int:
        """Count the items in these parts together."""
        return sum(stop - first for first, stop in map(self.part_bounds, numbers))


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What makes two runs the same job: a table, its pictures, a model and what it is asked.

    `sha256` is the digest of the table, `stamps` that of the sizes and times of its pictures, which lie below `folder`;
    `sides` are the columns that name them, and `model` is a revision.
    """

    table: str
    sha256: str
    sides: tuple[str, str]
    folder: str
    model: str
    question: str
    closer_look: bool
    token_shape: tuple[int, ...]
    stamps: str = ""

    @property
    def identity(self) -> dict[str, str]:
        """The values that make two runs the same job, under names for people."""
        return {
            "the table": self.sha256,
            "the model": self.model,
            "the question": self.question,
            "the table's folder": self.folder,
            "the pair of columns": ", ".join(self.sides),
            "the closer look": "taken" if self.closer_look else "left out",
            "the state of the pictures, by size and time,": self.stamps,
        }


@dataclass(frozen=True, kw_only=True)
class Manifest(JobSpec):
    """A job that has begun: its specification, and how its pairs and pictures are divided into parts."""

    rows: int
    columns: tuple[str, ...]
    pictures: int
    pictures_part: int
    pairs_part: int
    id: str
    format: int = FORMAT

    @property
    def encoding(self) -> Step:
        """The first step: pictures become tokens."""
        return Step("pictures", self.pictures, self.pictures_part, self.id)

    @property
    def scoring(self) -> Step:
        """The second step: pairs of tokens become scores."""
        return Step("pairs", self.rows, self.pairs_part, self.id)

    def fix_scores_revision(self, folder: Path, own: str) -> str:
        """Fix the job's `Runtime.scores_revision`: the first worker's own counts for all."""
        path = folder / SCORED_BY
        if not path.exists():
            fresh = folder / f".{SCORED_BY}.{uuid4().hex}"
            fresh.write_text(own)
            try:
                os.link(fresh, path)
            except FileExistsError:
                pass  # another worker was first
            except OSError:  # a file system without hard links
                fresh.replace(path)
            finally:
                fresh.unlink(missing_ok=True)
        return path.read_text()

    def save(self, folder: Path) -> None:
        """Write it; from then on the job has begun."""
        write_atomic(folder / MANIFEST, json.dumps(asdict(self), indent=2).encode())

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Raises FileNotFoundError where no job has begun, BatchError if the file cannot be read."""
        path = folder / MANIFEST
        try:
            found = parse_json(path.read_bytes())
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise BatchError(f"{path} cannot be read ({error}); begin anew with --force") from None
        known = isinstance(found, dict) and found.keys() == {field.name for field in fields(cls)}
        if not known or found["format"] != FORMAT:
            raise BatchError(f"{path} was written by another version of Diptych; begin anew with --force")
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in found.items()}
        return cls(**values)


def list_differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str | None, str]]:
    """The values by which two identities differ, as (name, then, now)."""
    for what, value in now.items():
        if (before := then.get(what)) != value:
            yield what, before, value


def part_sizes(pictures: int, pairs: int, *, closer_look: bool = False) -> tuple[int, int]:
    """The numbers of pictures and of pairs in a part; it is smaller where pairs are few or get closer looks."""
    small, most = max(_LEAST, pairs // 32), _LOOKED_AT if closer_look else _PAIRS
    return max(_PICTURES, -(-pictures // _PARTS)), max(min(most, small), -(-pairs // _PARTS))


def is_ours(name: str) -> bool:
    """True if a job writes files of this name into its folder."""
    return _OURS.fullmatch(name) is not None


def write_part(path: Path, data: bytes | memoryview) -> None:
    """Put a part under its name, whole and lasting. Several may write the same one: they write the same bytes."""
    with replacing_stream(path, path.with_name(f".{path.name}.{uuid4().hex}.tmp")) as stream:
        stream.write(data)
