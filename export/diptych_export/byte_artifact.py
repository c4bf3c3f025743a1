"""The pair graph in 8 bits put into an artifact, which keeps all its other files and its revision."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx

from diptych_export.byte_pair import in_bytes
from diptych_export.graphs import Graphs
from diptych_export.precision import PAIR_LOSS, Pictures, Ranking, compare_byte_pairs
from diptych_runtime.atomic import write_atomic
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import KernelError, Library, kernel
from diptych_runtime.manifest import PAIR_GRAPH, PAIR_INT8_GRAPH, PANEL_GRAPH, Manifest, Question, digest
from diptych_runtime.models import find_artifact

RANKED = "pairs_int8"  # in a manifest's `ranking`


def add_byte_pairs(model: str | os.PathLike[str], pictures: str | os.PathLike[str]) -> Ranking:
    """Put `pair-int8.onnx` into an artifact, by directory or as a released model, judged by a folder of pictures.

    Raises ArtifactError where its ranking falls by more than `PAIR_LOSS`, and where this processor cannot run it.
    """
    folder = find_artifact(model)
    manifest = Manifest.load(folder)
    panel, pair = (onnx.load_from_string(manifest.read_checked(folder, file)) for file in (PANEL_GRAPH, PAIR_GRAPH))
    judges = Pictures.read(Path(pictures), manifest.panel_size)
    graphs, ranking = with_byte_pairs(Graphs(panel, pair), judges, manifest.questions, _library())
    assert graphs.pair_int8 is not None
    data = graphs.pair_int8.SerializeToString(deterministic=True)
    write_atomic(folder / PAIR_INT8_GRAPH, data)
    replace(
        manifest,
        digests=manifest.digests | {PAIR_INT8_GRAPH: digest(data)},
        ranking=manifest.ranking | {RANKED: ranking.to_dict()},
    ).save(folder)
    return ranking


def with_byte_pairs(
    graphs: Graphs, pictures: Pictures, questions: Mapping[str, Question], library: Library
) -> tuple[Graphs, Ranking]:
    """The graphs with the pair graph in 8 bits beside the one in float32, and what that does to their ranking. Raises
    ArtifactError like `add_byte_pairs`.
    """
    graphs = graphs._replace(pair_int8=in_bytes(graphs.pair))
    ranking = compare_byte_pairs(graphs, pictures, questions, library)
    ranking.require(PAIR_LOSS)
    return graphs, ranking


def byte_library() -> Library | None:
    """The kernel, where it can run the graph in 8 bits here, and so judge it."""
    try:
        return _library()
    except ArtifactError:
        return None


def ranking_texts(ranking: Mapping[str, object]) -> list[str]:
    """The tables of a manifest's `ranking`."""
    known = dict(ranking)
    pairs = known.pop(RANKED, None)
    texts = [Ranking(**known).text()] if known else []  # pyright: ignore[reportArgumentType]
    return texts if pairs is None else [*texts, f"the pair graph in 8 bits:\n{Ranking(**pairs).text()}"]  # pyright: ignore[reportCallIssue]


def _library() -> Library:
    try:
        library = kernel()
    except KernelError as error:
        raise ArtifactError(f"the pair graph in 8 bits cannot be judged without the kernel: {error}") from None
    if not library.byte_instructions:
        raise ArtifactError("the pair graph in 8 bits cannot be judged here: this processor has no AVX-512 VNNI")
    return library
