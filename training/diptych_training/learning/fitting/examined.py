"""A kind's pictures as a model sees them: every pair is scored once, and looked at closely once whatever the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import faiss
import numpy as np
from pydantic import TypeAdapter, ValidationError

from diptych_runtime.atomic import replacing_file
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look import aligned, blocks, homography, registration, verification, votes
from diptych_runtime.closer_look.verification import describe, verify
from diptych_runtime.closer_look.votes import elected_of_crowd, signatures
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
        self.panels = encode(runtime, planted)
        self._keys = np.empty(0, np.int64)
        self._logits = np.empty((0, len(runtime.questions)), np.float32)
        self._looks = Looks(planted)

    def nearest(self, question: str, count: int = NEAREST) -> np.ndarray:
        """Pairs int64 (P, 2) of each picture and its `count` nearest, as the question weighs embeddings."""
        embeddings = self.panels.embeddings
        index = faiss.IndexFlatIP(embeddings.shape[1])
        index.add(embeddings)
        queries = self.runtime.asking(question).queries(embeddings)
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

    def held(self, pairs: np.ndarray, question: str) -> np.ndarray:
        """`logits` of which those of the question are held against the rivals of both pictures, their nearest
        (`Runtime.shifts`).
        """
        asked, logits = self.runtime.asking(question), self.logits(pairs)
        if asked.asked.cohort:
            near = self.nearest(question)
            shifts = asked.shifts(near, self.logits(near)[:, asked.column], len(self.planted.names))
            logits[:, asked.column] -= shifts[pairs].mean(1)
        return logits

    def elected(self, pairs: np.ndarray, worth: np.ndarray, count: int = NEAREST) -> np.ndarray:
        """The pairs int64 (V, 2) of pictures of a crowd that local features vote for, as `dedupe` adds them to the
        candidates `pairs`, of which some are `worth` a closer look, bool (P,).
        """
        threads = self.runtime.threads

        def described(places: list[int]) -> list[np.ndarray]:
            known = self._looks.signatures(threads)
            return [known[place] for place in places]

        return elected_of_crowd(pairs, worth, len(self.planted.names), count, described, threads)

    def evidence(self, pairs: np.ndarray) -> list[Evidence]:
        """The evidence of a closer look at pairs int64 (P, 2)."""
        return self._looks.at(np.asarray(pairs, np.int64).reshape(-1, 2), self.runtime.threads, self.tick)


def encode(runtime: Runtime, planted: Planted) -> Panels:
    """Tokens and embeddings of a kind's pictures."""
    with ThreadPoolExecutor(runtime.threads) as pool:
        pixels = list(pool.map(lambda name: panel_pixels(planted.folder / name, runtime.panel_size), planted.names))
    return runtime.encode(np.stack(pixels))


class Looks:
    """The evidence of closer looks at pairs of a kind's pictures, in a file beside them: a line of JSON for each pair;
    and the signatures of their keypoints, in another.

    The files are named by the code and the network that look: another version of either looks anew.
    """

    def __init__(self, planted: Planted) -> None:
        """Read the file, if there is one. A line that was not finished, or is of other evidence, is passed over."""
        self.planted = planted
        code = digest(b"".join([*(Path(str(part.__file__)).read_bytes() for part in _LOOKING), aligned.graph()]))[:12]
        self.path = planted.folder / f"looks-{code}.jsonl"
        votes_code = digest(Path(str(votes.__file__)).read_bytes())[:12]
        self._signatures = planted.folder / f"signatures-{code}-{votes_code}.npz"
        self._seen = dict(_read(self.path)) if self.path.is_file() else {}

    def at(self, pairs: np.ndarray, threads: int, tick: Callable[[int], object]) -> list[Evidence]:
        """The evidence of pairs int64 (P, 2) of places; missing looks are taken."""
        names = self.planted.names
        keys = [(names[a], names[b]) for a, b in pairs.tolist()]
        missing = sorted({key for key in keys if key not in self._seen})
        described = lru_cache(_VIEWS)(lambda name: describe(self.planted.folder / name))

        def look(key: tuple[str, str]) -> Evidence:
            return verify(described(key[0]), described(key[1]))

        with ThreadPoolExecutor(threads) as pool:
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                self._add(zip(batch, pool.map(look, batch), strict=True))
                tick(len(batch))
        return [self._seen[key] for key in keys]

    def signatures(self, threads: int) -> list[np.ndarray]:
        """The signatures uint8 (P, 32) of the keypoints of each picture."""
        names = self.planted.names
        if not self._signatures.is_file():
            with ThreadPoolExecutor(threads) as pool:
                made = pool.map(
                    lambda name: signatures(describe(self.planted.folder / name).keypoints.descriptors), names
                )
                with replacing_file(self._signatures) as unfinished, unfinished.open("wb") as file:
                    np.savez(file, allow_pickle=False, **{str(place): one for place, one in enumerate(made)})
        with np.load(self._signatures) as known:
            return [known[str(place)] for place in range(len(names))]

    def _add(self, made: Iterable[tuple[tuple[str, str], Evidence]]) -> None:
        made = list(made)
        # A line of its own first: after an interruption the last one may be half a line.
        lines = "".join(f"\n{json.dumps([*key, asdict(evidence)])}" for key, evidence in made)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(lines)
        self._seen.update(made)


def _read(path: Path) -> Iterable[tuple[tuple[str, str], Evidence]]:
    for line in path.read_text("utf-8").splitlines():
        try:
            first, second, seen = json.loads(line)
            yield (first, second), _EVIDENCE_OF.validate_python(seen)
        except (ValueError, ValidationError):
            continue
