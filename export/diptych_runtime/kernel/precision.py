"""The precision of pair scores: the float32 graph, or the one in 8 bits where this processor is made for it."""

from __future__ import annotations

import os
from typing import NamedTuple

from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel.library import Library
from diptych_runtime.manifest import PAIR_GRAPH, PAIR_INT8_GRAPH, Manifest

VARIABLE = "DIPTYCH_PAIR_PRECISION"
PRECISIONS = ("auto", "float32", "int8")


class PairGraph(NamedTuple):
    """The graph that scores pairs: its file, and a text that says which precision it has and why.

    Graphs of different precision give different scores, so what keeps scores keeps the `suffix` with the revision.
    """

    file: str
    path: str

    @property
    def suffix(self) -> str:
        """ "" for float32, the reference, and "-int8"."""
        return "" if self.file == PAIR_GRAPH else "-int8"


def pair_precision(asked: str | None = None) -> str:
    """The precision of pair scores: as asked, else as the variable DIPTYCH_PAIR_PRECISION says, else "auto".

    "auto" takes 8 bits where they can be had, "int8" makes their absence an error. Raises ArtifactError for any other.
    """
    precision = asked or os.environ.get(VARIABLE, "") or "auto"
    if precision not in PRECISIONS:
        raise ArtifactError(
            f"the precision of pairs must be one of {', '.join(PRECISIONS)}, got {precision!r} (argument or {VARIABLE})"
        )
    return precision


def pair_graph(manifest: Manifest, library: Library | None, precision: str) -> PairGraph:
    """The graph of an artifact that scores pairs here, with the kernel's `library` if it is used. Raises ArtifactError
    where 8 bits are required and cannot be had.
    """
    if precision == "float32":
        return PairGraph(PAIR_GRAPH, "float32: it was asked for")
    if library is None:
        obstacle = "8 bits need the kernel"
    elif not library.byte_instructions:
        obstacle = "this processor has no AVX-512 VNNI"
    elif PAIR_INT8_GRAPH not in manifest.digests:
        obstacle = f"the model has no {PAIR_INT8_GRAPH}; `diptych export --precision int8` writes one"
    else:
        return PairGraph(PAIR_INT8_GRAPH, f"int8 ({library.byte_instructions})")
    if precision == "int8":
        raise ArtifactError(f"pairs in 8 bits are required but cannot be had: {obstacle}")
    return PairGraph(PAIR_GRAPH, f"float32: {obstacle}")
