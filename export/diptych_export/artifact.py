"""From a checkpoint to an artifact directory: graphs, gate, manifest, and one move into place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from diptych_export.card import make_card, written_here
from diptych_export.folding import count_graph_flops
from diptych_export.graphs import OPSET, PREPROCESSING, export_graphs
from diptych_export.parity import PAIRS, OnPairs, Parity, compare_graphs
from diptych_export.precision import PRECISIONS, Pictures, make_int8
from diptych_model.checkpoint import checkpoint_files, load_checkpoint
from diptych_model.embedding import weights_of_parts
from diptych_model.network import PairNetwork
from diptych_runtime.atomic import replacing_folder
from diptych_runtime.calibration.questions import upgrade_to_questions
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import (
    CARD,
    EXPLAIN_GRAPH,
    MANIFEST,
    PAIR_GRAPH,
    PAIR_INT8_GRAPH,
    PANEL_GRAPH,
    Manifest,
    Question,
    digest,
    revision_of,
)
from diptych_runtime.models import CHECKPOINT, bundled_models, find_artifact, find_checkpoint
from diptych_runtime.parsing import check_depth

FILES = (PANEL_GRAPH, PAIR_GRAPH, PAIR_INT8_GRAPH, EXPLAIN_GRAPH, MANIFEST, CARD, CHECKPOINT)
FEWER_PAIRS = 400  # compared where the panel graph is one that was
MOST_FLOPS = 10**12  # of the pairs that each way to run the graphs ranks: half a minute or so


def export_checkpoint(
    checkpoint: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    name: str | None = None,
    opset: int = OPSET,
    check: bool = True,
    weights: bool = False,
    precision: str = "float32",
    pictures: str | os.PathLike[str] | None = None,
    pairs: int = PAIRS,
    on_pairs: OnPairs = lambda total: lambda count: None,
) -> Manifest:
    """Export a checkpoint; the questions' calibrations and thresholds, metrics and card are taken from its metadata.

    It is a directory, or an artifact, by name or directory, that has its weights with it. The name defaults to the
    artifact directory's. `weights` puts the checkpoint, in float16, into the artifact, to train on from. Raises
    ArtifactError like `export_artifact`.
    """
    found = find_checkpoint(checkpoint)
    if found.resolve().is_relative_to(Path(directory).resolve()):
        raise ArtifactError(f"{found} lies in {directory}, which the artifact would replace; choose another directory")
    try:
        network, metadata = load_checkpoint(found)
        check_depth(metadata)
        questions = _measured_questions(metadata)
    except (OSError, ValueError, KeyError) as error:
        raise ArtifactError(f"{os.fspath(checkpoint)} cannot be exported: {error}") from None
    begun = metadata.get("panel_of")
    kept = PanelGraph.from_artifact(str(begun), network) if begun is not None and precision == "float32" else None
    return export_artifact(
        network,
        directory,
        name=name,
        questions=questions,
        metadata=metadata | {"released": checkpoint if checkpoint in bundled_models() else None},
        opset=opset,
        check=check,
        weights=weights,
        precision=precision,
        pictures=pictures,
        # What differs from an artifact that all pairs were compared for are the numbers of the last maps.
        pairs=min(pairs, FEWER_PAIRS) if kept else pairs,
        panel=kept,
        on_pairs=on_pairs,
    )


@dataclass(frozen=True)
class PanelGraph:
    """The panel graph of an artifact, with its manifest: another network with the same panel part keeps it, so that
    stored tokens and embeddings stay valid.
    """

    data: bytes
    manifest: Manifest

    @classmethod
    def from_artifact(cls, model: str, network: PairNetwork) -> PanelGraph:
        """The panel graph of an artifact, by name or directory.

        Raises ArtifactError unless the artifact has its weights, and those of the panel part are the network's to the
        last bit.
        """
        folder = find_artifact(model)
        manifest = Manifest.load(folder)
        try:
            begun = load_checkpoint(find_checkpoint(model))[0]
        except (OSError, ValueError, KeyError) as error:
            raise ArtifactError(
                f"the network was trained on from {model}, whose weights cannot be read: {error}"
            ) from None
        if manifest.panel_size != network.config.pixels or not _same_weights(begun, network):
            raise ArtifactError(
                f"the network was trained on from {model}, which has another panel part by now: train it again"
            )
        return cls(manifest.read_checked(folder, PANEL_GRAPH), manifest)

    def with_panel_parity(self, found: Parity) -> Parity:
        """The parity result with the differences that were found when this panel graph was exported.

        They take the place of those of a graph that is not written.
        """
        if not self.manifest.parity:
            return found
        known = [one for one in Parity.from_dict(self.manifest.parity).differences if one.graph == "panel"]
        return replace(found, differences=(*known, *(one for one in found.differences if one.graph != "panel")))


def _same_weights(one: PairNetwork, other: PairNetwork) -> bool:
    mine, theirs = one.panel.state_dict(), other.panel.state_dict()
    return mine.keys() == theirs.keys() and all(
        value.shape == theirs[name].shape and bool((value == theirs[name]).all()) for name, value in mine.items()
    )


def export_artifact(
    network: PairNetwork,
    directory: str | os.PathLike[str],
    *,
    name: str | None = None,
    questions: Mapping[str, Question] | None = None,
    metadata: Mapping[str, Any] | None = None,
    opset: int = OPSET,
    check: bool = True,
    weights: bool = False,
    precision: str = "float32",
    pictures: str | os.PathLike[str] | None = None,
    pairs: int = PAIRS,
    panel: PanelGraph | None = None,
    on_pairs: OnPairs = lambda total: lambda count: None,
) -> Manifest:
    """Write a network as an artifact: `panel.onnx`, `pair.onnx`, `manifest.json`, `CARD.md` and, where there is such a
    thing, `explain.onnx`. `metadata` are the checkpoint's, with its `metrics` and `card`; without one a card is made
    (`make_card`), unless somebody has written one there. An artifact that is there is replaced as a whole, unless other
    files would be lost, or weights without new ones in their place; any other non-empty directory is refused.

    Nothing is written unless torch and every way to run the graphs agree to 1e-5, over `pairs` pairs too (see
    `compare_graphs`, also for `on_pairs`), or fewer where a pair costs more than 100 MFLOP; `check=False` leaves that
    out, and the manifest's parity empty. Of `questions`, the network's own, one that is not given is not calibrated.

    `precision` is one of `PRECISIONS`; int8 is written unless it finds edits of the `pictures`, a folder, worse (see
    `make_int8`). That is never left out. A `panel` graph that is kept is written as it is.
    """
    target, metadata = Path(directory).absolute(), metadata or {}
    _refuse_to_overwrite(target, weights=weights)
    answered = _own_questions(network.config.questions, network.config.parts, questions or {})
    judges = _read_judges(precision, pictures, network.config.pixels)
    graphs = export_graphs(network, opset=opset)
    flops = count_graph_flops(network)
    pairs = min(pairs, max(FEWER_PAIRS, MOST_FLOPS // max(1, flops["pair"])))
    parity = None
    if check:
        parity = compare_graphs(network, graphs, pairs=pairs, on_pairs=on_pairs)
        parity.require()
        parity = panel.with_panel_parity(parity) if panel else parity
    files, ranking = {}, {}
    if judges is not None:
        graphs, files, ranking = make_int8(graphs, judges, answered)
    files |= {
        PANEL_GRAPH: panel.data if panel else graphs.panel.SerializeToString(deterministic=True),
        PAIR_GRAPH: graphs.pair.SerializeToString(deterministic=True),
    }
    if graphs.explain is not None:
        files[EXPLAIN_GRAPH] = graphs.explain.SerializeToString(deterministic=True)
    digests = {file: digest(data) for file, data in files.items()}
    manifest = Manifest(
        name=name or target.name,
        revision=revision_of(digests),
        panel_size=network.config.pixels,
        token_shape=network.config.token_shape,
        embedding_dim=network.config.embedding,
        opset=opset,
        preprocessing=panel.manifest.preprocessing if panel else PREPROCESSING,
        digests=digests,
        questions=answered,
        parity=parity.to_dict() if parity else {},
        metrics=dict(metadata.get("metrics") or {}),
        flops=flops,
        precision=panel.manifest.precision if panel else precision,
        ranking=ranking,
        package=_package_version(),
        byte_channels=network.config.byte_channels,
    )
    if metadata.get("card") or written_here(target):
        files[CARD] = (metadata.get("card") or make_card(manifest, metadata)).encode()
    if weights:
        kept = {
            "questions": {name: asdict(question) for name, question in answered.items()},
            "metrics": manifest.metrics,
        }
        files |= {f"{CHECKPOINT}/{file}": data for file, data in checkpoint_files(network, kept, half=True).items()}
    _move_into_place(manifest, files, target)
    return manifest


def _measured_questions(metadata: Mapping[str, Any]) -> dict[str, Question]:
    """The questions with their calibration and thresholds as training measured them, empty if it measured none. Raises
    ValueError.
    """
    if not metadata.keys() & {"questions", "calibration", "thresholds"}:
        return {}
    return TypeAdapter(dict[str, Question]).validate_python(upgrade_to_questions(metadata)["questions"])


def _own_questions(names: Sequence[str], parts: int, given: Mapping[str, Question]) -> dict[str, Question]:
    """The questions of a network in the order of its columns, each with the weights of its embedding's parts.

    Raises ArtifactError for one that is not its own.
    """
    if unknown := sorted(given.keys() - set(names)):
        raise ArtifactError(
            f"the network answers {', '.join(names)}, and there is a calibration of {', '.join(unknown)}; calibrate "
            "the questions that it answers"
        )
    answered = {name: given.get(name, Question()) for name in names}
    if parts == 1:
        return answered
    return {name: replace(q, weights=tuple(weights_of_parts(names, name))) for name, q in answered.items()}


def _read_judges(precision: str, pictures: str | os.PathLike[str] | None, pixels: int) -> Pictures | None:
    if precision not in PRECISIONS:
        raise ArtifactError(f"the precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision == "float32":
        return None
    if pictures is None:
        raise ArtifactError(
            f"{precision} is made and judged by pictures; give a folder of some like those to be compared (--pictures)"
        )
    return Pictures.read_folder(Path(pictures), pixels)


def _refuse_to_overwrite(target: Path, *, weights: bool) -> None:
    if target.exists() and not target.is_dir():
        raise ArtifactError(f"{target} is a file; an artifact is a directory")
    nearest = next(folder for folder in target.parents if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        why = "is read-only" if nearest.is_dir() else "is a file"
        raise ArtifactError(f"{target} cannot be made, as {nearest} {why}; choose another directory")
    there = sorted(path.name for path in target.iterdir()) if target.is_dir() else []
    if there and not (target / MANIFEST).is_file():
        raise ArtifactError(f"{target} is not empty and holds no artifact; choose a new or empty directory")
    if foreign := [name for name in there if name not in FILES]:
        raise ArtifactError(
            f"{target} holds {foreign[0]}, which is no part of an artifact and would be lost: move it, or choose "
            "another directory"
        )
    if CHECKPOINT in there and not weights:
        raise ArtifactError(
            f"{target} has weights to train on from, which would be lost: put the new ones in with --weights, or "
            "choose another directory"
        )


def _move_into_place(manifest: Manifest, files: Mapping[str, bytes], target: Path) -> None:
    with replacing_folder(target, full=True) as fresh:
        for file, data in files.items():
            (fresh / file).parent.mkdir(exist_ok=True)
            (fresh / file).write_bytes(data)
        manifest.save(fresh)
        if CARD not in files and (target / CARD).is_file():
            shutil.copy(target / CARD, fresh / CARD)


def _package_version() -> str:
    try:
        return version("diptych")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "unknown"
