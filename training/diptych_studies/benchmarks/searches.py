"""The ways of searching whose time is taken: one query each, among references that were read beforehand."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter, sleep

import numpy as np

from diptych.bench.graphs import open_yardstick
from diptych.bench.peers import channels_first, count_inliers, find_keypoints, normalise_tokens
from diptych.collection.collection import Collection as Pictures
from diptych.console import Console
from diptych.errors import BenchError
from diptych.scoring.scorer import Scorer
from diptych_runtime.decoder import open_picture

CANDIDATES = 100
_REST = 0.05

Search = Callable[[Path], float]


@dataclass(frozen=True)
class Copies:
    """A set as `diptych edit` writes it: the folders of `references` and `queries`, and the table `truth`."""

    references: Path
    queries: Path
    truth: Path


@contextmanager
def searches(
    folder: Path,
    scorers: Mapping[str, Scorer],
    copies: Copies,
    keys: Collection[str],
    console: Console,
) -> Iterator[tuple[list[Path], dict[str, Search]]]:
    """The queries in a drawn order, and by key each way to search for one of them, which returns the seconds.

    Each model has all references in a collection, and the peers the candidates of the first model's embedding, whose
    time counts as theirs.
    """
    with ExitStack() as stack:
        stored = {}
        for name, scorer in scorers.items():
            console.remark(f"the references into a collection of {name} ...")
            place = folder / str(len(stored))
            stored[name] = stack.enter_context(Pictures.open(place, scorer, create=True))
            stored[name].add([copies.references], show_progress_bar=not console.is_silent)
        model = next(iter(scorers))
        peers = _Peers(stored[model], scorers[model])
        works: dict[str, Search] = {}
        for key in keys:
            name, _, stage = key.rpartition(" ")
            if not name:
                works[key] = peers.work(key)
            else:
                works[key] = _search(stored[name], CANDIDATES if stage == "search" else 0)
        with copies.truth.open(newline="", encoding="utf-8") as table:
            files = [copies.queries / name for name in dict.fromkeys(row["query"] for row in csv.DictReader(table))]
        order = np.random.default_rng(0).permutation(len(files))
        yield [files[place] for place in order], works


def _search(stored: Pictures, candidates: int, question: str | None = None) -> Search:
    def search(query: Path) -> float:
        return _seconds(lambda: stored.search(query, top=CANDIDATES, candidates=candidates, question=question))

    return search


class _Peers:
    """Other ways to search, after or in place of the embedding of a model."""

    def __init__(self, stored: Pictures, scorer: Scorer) -> None:
        self._stored, self._scorer = stored, scorer
        self._first = _search(stored, 0)  # in crops of the query too, as far as the model looks for copies in these
        self._whole = _search(stored, 0, "thing")
        self._candidates = cache(self._found)  # of a query, for all peers
        self._keypoints = cache(lambda path: find_keypoints(Path(path).read_bytes()))

    def work(self, peer: str) -> Search:
        """A search by this peer."""
        match peer:
            case "phash":
                return self._phash()
            case "sift":
                return self._sift()
            case "late":
                return self._late()
            case "untrained":
                return self._whole
            case _:
                return self._cross_encoder(peer)

    def _phash(self) -> Search:
        try:
            from imagehash import phash
        except ImportError:
            raise BenchError("pHash needs imagehash; install it with `pip install 'diptych[evaluate]'`") from None
        paths = (self._stored.get(id).path for id in self._stored.embeddings()[0])
        hashes = np.stack([phash(open_picture(path)).hash.ravel() for path in paths if path is not None])
        return lambda query: _seconds(lambda: (hashes != phash(open_picture(query)).hash.ravel()).sum(1).argsort())

    def _sift(self) -> Search:
        def search(query: Path) -> float:
            candidates = [self._keypoints(path) for path in self._candidates(query)]

            def verify() -> None:
                asked = find_keypoints(query.read_bytes())
                for candidate in candidates:
                    count_inliers(asked, candidate)

            return self._first(query) + _seconds(verify)

        return search

    def _late(self) -> Search:
        session = open_yardstick("late", self._scorer.runtime.threads)

        def search(query: Path) -> float:
            tokens = normalise_tokens(self._scorer.panels([query, *self._candidates(query)]).tokens)
            # The query's tokens are there after the first stage.
            return self._whole(query) + _seconds(lambda: session.run(None, {"a": tokens[:1], "b": tokens[1:]}))

        return search

    def _cross_encoder(self, peer: str) -> Search:
        graph, axis = {"cnn": ("cnn_pair", 1), "vit-s16": ("vit_s16_pair", 3)}[peer]
        session = open_yardstick(graph, self._scorer.runtime.threads)

        def search(query: Path) -> float:
            found = self._candidates(query)
            pixels = [channels_first(Path(path).read_bytes()) for path in (query, found[0])]
            pair = np.concatenate(pixels, axis)
            # It takes pair by pair, and each costs the same.
            return self._first(query) + len(found) * _seconds(lambda: session.run(None, {"pixels": pair}))

        return search

    def _found(self, query: Path) -> list[str]:
        found = self._stored.search(query, top=CANDIDATES, candidates=0).candidates
        return [match.path for match in found if match.path is not None]  # all were added as files


def _seconds(work: Callable[[], object]) -> float:
    # The threads of what ran before look out for more work for a while, on the cores of what is next.
    sleep(_REST)
    began = perf_counter()
    work()
    return perf_counter() - began
