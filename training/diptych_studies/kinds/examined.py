"""A kind's pictures as a model sees them: every pair is scored once, and looked at closely once whatever the model."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import numpy as np

from diptych_runtime.atomic import replacing_file
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look import votes
from diptych_runtime.closer_look.verification import describe
from diptych_runtime.closer_look.votes import elected_of_crowd, make_signatures
from diptych_runtime.decoder import panel_pixels
from diptych_runtime.manifest import digest
from diptych_runtime.runtime import Panels, Runtime
from diptych_studies.kinds.looks import Looks
from diptych_studies.kinds.planted import Planted

NEAREST = 20  # candidates of each picture


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
            own = self.logits(near)[:, asked.column]
            shifts = asked.question_settings.logit_shifts(near, own, len(self.planted.names))
            logits[:, asked.column] -= shifts[pairs].mean(1)
        return logits

    def elect_pairs(self, pairs: np.ndarray, worth: np.ndarray, count: int = NEAREST) -> np.ndarray:
        """Elect pairs int64 (V, 2) of a crowd by votes of local features.

        `dedupe` adds them to the candidates `pairs`, of which some are `worth` a closer look, bool (P,).
        """
        threads = self.runtime.threads

        def list_signatures(places: list[int]) -> list[np.ndarray]:
            known = self._read_signatures()
            return [known[place] for place in places]

        return elected_of_crowd(pairs, worth, len(self.planted.names), count, list_signatures, threads)

    def evidence(self, pairs: np.ndarray) -> list[Evidence]:
        """The evidence of a closer look at pairs int64 (P, 2)."""
        return self._looks.look_at_pairs(np.asarray(pairs, np.int64).reshape(-1, 2), self.runtime.threads, self.tick)

    def _read_signatures(self) -> list[np.ndarray]:
        """Read the signatures uint8 (P, 32) of the keypoints of each picture; they are kept beside the pictures."""
        names, folder = self.planted.names, self.planted.folder
        code = digest(Path(str(votes.__file__)).read_bytes())[:12]
        path = folder / f"signatures-{self._looks.code}-{code}.npz"
        if not path.is_file():
            with ThreadPoolExecutor(self.runtime.threads) as pool:
                made = pool.map(lambda name: make_signatures(describe(folder / name).keypoints.descriptors), names)
                with replacing_file(path) as unfinished, unfinished.open("wb") as file:
                    np.savez(file, allow_pickle=False, **{str(place): one for place, one in enumerate(made)})
        with np.load(path) as known:
            return [known[str(place)] for place in range(len(names))]


def encode_kind(runtime: Runtime, planted: Planted) -> Panels:
    """Encode the pictures of a kind: their tokens and embeddings."""
    with ThreadPoolExecutor(runtime.threads) as pool:
        pixels = list(pool.map(lambda name: panel_pixels(planted.folder / name, runtime.panel_size), planted.names))
    return runtime.encode(np.stack(pixels))
