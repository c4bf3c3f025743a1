"""Pairs that a person called different: no search for duplicates proposes them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from diptych.store.open import Backend
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.schema import is_collection
from diptych_runtime.calibration.questions import COPY, THING

IdPairs = frozenset[tuple[str, str]]
NONE: IdPairs = frozenset()


def different_pairs(backend: Backend, question: str = COPY) -> IdPairs:
    """The ids, the lower first, of pairs whose latest label to a question is *different*; none on Milvus.

    Pictures of different things are no copies, unless a label says that they are.
    """
    if not isinstance(backend, SqliteBackend):
        return NONE
    answers = {(*label.pair, label.question): label.answer for label in backend.labels()}
    asked = (question, THING) if question == COPY else (question,)
    return frozenset(
        (a, b)
        for a, b, of in answers
        if of in asked
        and answers[a, b, of] == "different"
        and (of == question or answers.get((a, b, question)) != "same")
    )


def different_pairs_in(folder: Path | None, question: str = COPY) -> IdPairs:
    """`different_pairs` of the collection in a folder; none where there is no collection. Raises StoreError."""
    if folder is None or not is_collection(folder):
        return NONE
    with SqliteBackend.open(folder, read_only=True) as backend:
        return different_pairs(backend, question)


def places_of(pairs: Iterable[tuple[str, str]], ids: Sequence[str]) -> np.ndarray:
    """Pairs of ids as places in `ids`, int64 (P, 2), those left out of which one is not among them."""
    place = {id: number for number, id in enumerate(ids)}
    found = [(place[a], place[b]) for a, b in pairs if a in place and b in place]
    return np.array(found, np.int64).reshape(-1, 2)
