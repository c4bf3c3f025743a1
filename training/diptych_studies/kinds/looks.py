"""Closer looks at pairs of picture files, kept on the disk for the next model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look import aligned, homography, registration, verification
from diptych_runtime.manifest import digest
from diptych_training.looks import take_looks

_LOOKING = aligned, homography, registration, verification  # the code that looks
_BATCH = 64  # closer looks, after each of which the file has them
_EVIDENCE_OF = TypeAdapter(Evidence)


class Looks:
    """The evidence of closer looks at pairs of named pictures below a root, kept in a folder: a line of JSON each.

    The file is named by the code and the network that look, `code`: another version of either looks anew.
    """

    def __init__(self, names: Sequence[str], root: Path, folder: Path) -> None:
        """Read the file, if there is one. A line that was not finished, or is of other evidence, is passed over."""
        self.names, self.root = names, root
        parts = [Path(str(part.__file__)).read_bytes() for part in _LOOKING]
        self.code = digest(b"".join([*parts, aligned.read_graph()]))[:12]
        self.path = folder / f"looks-{self.code}.jsonl"
        self._seen = dict(_read_looks(self.path)) if self.path.is_file() else {}

    def look_at_pairs(self, pairs: np.ndarray, threads: int, tick: Callable[[int], object]) -> list[Evidence]:
        """Look at pairs int64 (P, 2) of places, unless the file has the evidence."""
        keys = [(str(self.names[a]), str(self.names[b])) for a, b in pairs.tolist()]
        missing = sorted({key for key in keys if key not in self._seen})
        looked = zip(missing, take_looks([(self.root / a, self.root / b) for a, b in missing], threads), strict=True)
        while batch := list(islice(looked, _BATCH)):
            self._add_looks(batch)
            tick(len(batch))
        return [self._seen[key] for key in keys]

    def _add_looks(self, made: Sequence[tuple[tuple[str, str], Evidence]]) -> None:
        # A line of its own first: after an interruption the last one may be half a line.
        lines = "".join(f"\n{json.dumps([*key, asdict(evidence)])}" for key, evidence in made)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(lines)
        self._seen.update(made)


def _read_looks(path: Path) -> Iterable[tuple[tuple[str, str], Evidence]]:
    for line in path.read_text("utf-8").splitlines():
        try:
            first, second, seen = json.loads(line)
            yield (first, second), _EVIDENCE_OF.validate_python(seen)
        except (ValueError, ValidationError):
            continue
