"""The tokens of a job's pictures, mapped into memory from a file a part, and the stamps of the pictures' files."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path

import numpy as np

from diptych.batch.parts.manifest import Step, write_part
from diptych.errors import BatchError
from diptych.store.records import FileStamp

_MAPS, _FACTS = 8192, 256  # files that are held open


class Tokens:
    """The tokens float16 (P, N, M, d) of P pictures by their places; those of unreadable ones are zeros."""

    def __init__(self, folder: Path, step: Step, shape: Sequence[int]) -> None:
        self.folder, self.step, self.shape = folder, step, tuple(shape)
        self._map, self._facts = lru_cache(_MAPS)(self._map_tokens), lru_cache(_FACTS)(self._read_facts)

    def write(
        self, number: int, tokens: np.ndarray, errors: Mapping[int, str], stamps: Sequence[FileStamp | None]
    ) -> None:
        """Keep a part for good: its tokens, why which rows of it are none, and the stamps of its files."""
        write_part(self._tokens_path(number), np.ascontiguousarray(tokens, np.float16).data)
        facts = {"errors": sorted(errors.items()), "stamps": [stamp and astuple(stamp) for stamp in stamps]}
        write_part(self.folder / self.step.part_file(number), json.dumps(facts).encode())

    def read_tokens(self, places: np.ndarray) -> np.ndarray:
        """Read the tokens of pictures, in the order of their places int (Q,). Raises BatchError for a damaged file."""
        tokens = np.empty((len(places), *self.shape), np.float16)
        numbers, rows = np.divmod(places, self.step.size)
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            tokens[chosen] = self._map(number)[rows[chosen]]
        return tokens

    def find_facts(self, places: Sequence[int]) -> tuple[dict[int, str], dict[int, FileStamp | None]]:
        """The errors of those pictures among `places` that have no tokens, and the stamps of their files."""
        errors, stamps = {}, {}
        for place in places:
            number, row = divmod(place, self.step.size)
            told, files = self._facts(number)
            if row in told:
                errors[place] = told[row]
            stamps[place] = files[row]
        return errors, stamps

    def _tokens_path(self, number: int) -> Path:
        return self.folder / f"tokens-{self.step.part_tag(number)}.f16"

    def _map_tokens(self, number: int) -> np.ndarray:
        first, stop = self.step.part_bounds(number)
        path = self._tokens_path(number)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            # A pair's pictures may lie anywhere: reading on behind them would be in vain.
            mapped.madvise(mmap.MADV_RANDOM)
        expected = (stop - first) * 2 * int(np.prod(self.shape))
        if len(mapped) != expected:
            remedy = f"remove it and {self.step.part_file(number)} and go on with --resume"
            raise BatchError(f"{path} is damaged: {len(mapped):,} bytes, expected {expected:,}; {remedy}")
        return np.frombuffer(mapped, np.float16).reshape(stop - first, *self.shape)

    def _read_facts(self, number: int) -> tuple[dict[int, str], list[FileStamp | None]]:
        facts = json.loads((self.folder / self.step.part_file(number)).read_bytes())
        return dict(facts["errors"]), [stamp and FileStamp(*stamp) for stamp in facts["stamps"]]
