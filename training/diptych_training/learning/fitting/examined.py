"""A kind's pictures as a model sees them: every pair is scored once, and looked at closely once whatever the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from itertools import islice
from pathlib import Path

import faiss
import numpy as np
from pydantic import TypeAdapter, ValidationError

from diptych_runtime.atomic import replacing_file
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look import aligned, blocks, homography, registration, verification, votes
from diptych_runtime.closer_look.verification import describe, verify
from diptych_runtime.closer_look.votes import elected_of_crowd, make_signatures
from diptych_runtime.decoder import panel_pixels
from diptych_runtime.manifest import digest
from diptych_runtime.runtime import Panels, Runtime
from diptych_training.data.planted import Planted

NEAREST = 20  # candidates of each picture
_LOOKING = aligned, blocks, homography, registration, verification  # the code that looks
_VIEWS = 512  # pictures whose keypoints are kept, 2 MB each at most
_BATCH = 64  # closer looks, after each of which the file has them
_EVIDENCE_OF = TypeAdapter(Evidence)


class Examined:
    """The pictures of a `planted` kind with their `panels`. `tick` is told how many pairs were looked at more closely,
    each time some were; what was seen is kept beside the pictures, and the next model finds it there.
    """

    def __init__(self, runtime: Runtime, planted: Planted, tick: Callable[[int], object] = lambda n: None) -> None:
        """Encode the pictures."""
        self.runtime, self.planted, self.tick = runtime, planted, tick
        self.panels = encode_kind(runtime, planted)
        self._keys = np.empty(0, np.int64)
        self._logits = np.empty((0, len(runtime.questions)), np.float32)
        self._looks = Looks(planted.names, planted.folder, planted.folder)

    def find_nearest(self, question: str, count: int = NEAREST) -> np.ndarray:
        """Find the `count` nearest of each picture: pairs int64 (P, 2).

        They are nearest as the question weighs embeddings.
        """
        embeddings = self.panels.embeddings
        index = faiss.IndexFlatIP(embeddings.shape[1])
        index.add(embeddings)
        queries = self.runtime.asking(question).weight_queries(embeddings)
        near = index.search(queries, min(count + 1, len(embeddings)))[1]
        pairs = [(i, j) for i, row in enumerate(near.tolist()) for j in row if i != j]
        return np.unique(np.sort(pairs, axis=1), axis=0)

    def logits(self, pairs: np.ndarray) -> np.ndarray:
        """Logits float32 (P, Q) of all questions of pairs int64 (P, 2), the lower place first."""
        keys = pairs[:, 0] * len(self.planted.names) + pairs[:, 1]
        if len(missing := np.setdiff1d(keys, self._keys)):
            tokens = self.panels.tokens
            a, b = np.divmod(missing, len(self.planted.names))
            found = np.concatenate([self._keys, missing])
            logits = np.concatenate([self._logits, self.runtime.all_logits(tokens[a], tokens[b])])
            order = np.argsort(found)
            self._keys, self._logits = found[order], logits[order]
        return self._logits[np.searchsorted(self._keys, keys)]

    def normalized_logits(self, pairs: np.ndarray, question: str) -> np.ndarray:
        """The `logits` of pairs, those of one question normalized by rivals.

        The rivals are the nearest of both pictures (`Runtime.shifts`).
        """
        asked, logits = self.runtime.asking(question), self.logits(pairs)
        if asked.question_settings.cohort:
            near = self.find_nearest(question)
            shifts = asked.logit_shifts(near, self.logits(near)[:, asked.column], len(self.planted.names))
            logits[:, asked.column] -= shifts[pairs].mean(1)
        return logits

    def elect_pairs(self, pairs: np.ndarray, worth: np.ndarray, count: int = NEAREST) -> np.ndarray:
        """Elect pairs int64 (V, 2) of a crowd by votes of local features.

        `dedupe` adds them to the candidates `pairs`, of which some are `worth` a closer look, bool (P,).
        """
        threads = self.runtime.threads

        def list_signatures(places: list[int]) -> list[np.ndarray]:
            known = self._looks.read_signatures(threads)
            return [known[place] for place in places]

        return elected_of_crowd(pairs, worth, len(self.planted.names), count, list_signatures, threads)

    def evidence(self, pairs: np.ndarray) -> list[Evidence]:
        """The evidence of a closer look at pairs int64 (P, 2)."""
        return self._looks.look_at_pairs(np.asarray(pairs, np.int64).reshape(-1, 2), self.runtime.threads, self.tick)


def encode_kind(runtime: Runtime, planted: Planted) -> Panels:
    """Encode the pictures of a kind: their tokens and embeddings."""
    with ThreadPoolExecutor(runtime.threads) as pool:
        pixels = list(pool.map(lambda name: panel_pixels(planted.folder / name, runtime.panel_size), planted.names))
    return runtime.encode(np.stack(pixels))


def take_looks(pairs: Sequence[tuple[Path, Path]], threads: int) -> Iterator[Evidence]:
    """The evidence of a closer look at each pair of picture files, in their order."""
    described = lru_cache(_VIEWS)(describe)
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(lambda pair: verify(*map(described, pair)), pairs)


def spread_looks(taken: np.ndarray, looks: Iterable[Evidence]) -> list[Evidence | None]:
    """The evidence of the pairs that were `taken`, bool (P,), in their order, and None of the others."""
    found = iter(list(looks))
    return [next(found) if one else None for one in taken.tolist()]


class Looks:
    """The evidence of closer looks at pairs of named pictures below a root, kept in a folder: a line of JSON for each
    pair; and the signatures of their keypoints, in another file.

    The files are named by the code and the network that look: another version of either looks anew.
    """

    def __init__(self, names: Sequence[str], root: Path, folder: Path) -> None:
        """Read the file, if there is one. A line that was not finished, or is of other evidence, is passed over."""
        self.names, self.root = names, root
        code = digest(b"".join([*(Path(str(part.__file__)).read_bytes() for part in _LOOKING), aligned.read_graph()]))[
            :12
        ]
        self.path = folder / f"looks-{code}.jsonl"
        votes_code = digest(Path(str(votes.__file__)).read_bytes())[:12]
        self._signatures = folder / f"signatures-{code}-{votes_code}.npz"
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

    def read_signatures(self, threads: int) -> list[np.ndarray]:
        """Read the signatures uint8 (P, 32) of the keypoints of each picture."""
        if not self._signatures.is_file():
            with ThreadPoolExecutor(threads) as pool:
                made = pool.map(
                    lambda name: make_signatures(describe(self.root / name).keypoints.descriptors), self.names
                )
                with replacing_file(self._signatures) as unfinished, unfinished.open("wb") as file:
                    np.savez(file, allow_pickle=False, **{str(place): one for place, one in enumerate(made)})
        with np.load(self._signatures) as known:
            return [known[str(place)] for place in range(len(self.names))]

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
