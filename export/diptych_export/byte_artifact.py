"""The pair graph in 8 bits as a part of an artifact, which keeps all its other files and its revision."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from diptych_export.byte_pair import in_bytes
from diptych_export.graphs import Graphs
from diptych_export.precision import PAIR_LOSS, Pictures, Ranking, compare_ranking
from diptych_runtime.atomic import write_atomic
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import KernelError, Library, load_kernel
from diptych_runtime.manifest import MANIFEST, PAIR_GRAPH, PAIR_INT8_GRAPH, PANEL_GRAPH, Manifest, Question, digest
from diptych_runtime.models import find_artifact
from diptych_runtime.parsing import parse_json

RANKED = "pairs_int8"  # in a manifest's `ranking`


def add_byte_pairs(model: str | os.PathLike[str], pictures: str | os.PathLike[str]) -> Ranking:
    """Put `pair-int8.onnx` into an artifact, by directory or as a released model, judged by a folder of pictures.

    Raises ArtifactError where its ranking falls by more than `PAIR_LOSS`, and where this processor cannot run it.
    """
    folder = find_artifact(model)
    manifest = Manifest.load(folder)
    panel, pair = (onnx.load_from_string(manifest.read_checked(folder, file)) for file in (PANEL_GRAPH, PAIR_GRAPH))
    judges = Pictures.read_folder(Path(pictures), manifest.panel_size)
    library, made = _load_byte_kernel(), in_bytes(pair)
    ranking = _judge_byte_pair(Graphs(panel, pair), made, judges, manifest.questions, library)
    data = made.SerializeToString(deterministic=True)
    write_atomic(folder / PAIR_INT8_GRAPH, data)
    described = parse_json((folder / MANIFEST).read_text("utf-8"))  # of which the rest stays as it was written
    described["digests"][PAIR_INT8_GRAPH] = digest(data)
    described["ranking"] = manifest.ranking | {RANKED: ranking.to_dict()}
    write_atomic(folder / MANIFEST, (json.dumps(described, indent=2) + "\n").encode())
    return ranking


def byte_pair_if_judged(
    graphs: Graphs, pictures: Pictures, questions: Mapping[str, Question]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The file of the pair graph in 8 bits, and its part of a manifest's `ranking`; both empty where this processor
    cannot run it, and where nothing of the graph can be in 8 bits.
    """
    try:
        library, made = _load_byte_kernel(), in_bytes(graphs.pair)
    except ArtifactError:
        return {}, {}
    ranking = _judge_byte_pair(graphs, made, pictures, questions, library)
    return {PAIR_INT8_GRAPH: made.SerializeToString(deterministic=True)}, {RANKED: ranking.to_dict()}


def ranking_texts(ranking: Mapping[str, Any]) -> list[str]:
    """The tables of a manifest's `ranking`."""
    whole = {name: value for name, value in ranking.items() if name != RANKED}
    texts = [Ranking(**whole).text()] if whole else []
    return [*texts, f"the pair graph in 8 bits:\n{Ranking(**ranking[RANKED]).text()}"] if RANKED in ranking else texts


def _judge_byte_pair(
    graphs: Graphs, made: onnx.ModelProto, pictures: Pictures, questions: Mapping[str, Question], library: Library
) -> Ranking:
    """The ranking metrics of the pair graph and of its copy in 8 bits. Raises ArtifactError."""
    ranking = compare_ranking(graphs, graphs._replace(pair=made), pictures, questions, library=library)
    ranking.require(PAIR_LOSS)
    return ranking


def _load_byte_kernel() -> Library:
    try:
        library = load_kernel()
    except KernelError as error:
        raise ArtifactError(f"the pair graph in 8 bits cannot be judged without the kernel: {error}") from None
    if not library.byte_instructions:
        raise ArtifactError("the pair graph in 8 bits cannot be judged here: this processor has no AVX-512 VNNI")
    return library
