import copy
import inspect
import math

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from diptych_export.artifact import export_artifact
from diptych_export.graphs import Graphs
from diptych_export.parity import PAIRS, Parity, compare_graphs
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import Manifest
from diptych_runtime.models import MODELS, bundled_models

FEW = 100


@pytest.fixture(scope="module")
def graphs(artifact):
    return Graphs(*(onnx.load(artifact / f"{part}.onnx") for part in Graphs._fields))


def perturbed(graph: onnx.ModelProto, name_ends: str, by: float) -> onnx.ModelProto:
    other = copy.deepcopy(graph)
    (tensor,) = [tensor for tensor in other.graph.initializer if tensor.name.endswith(name_ends)]
    values = numpy_helper.to_array(tensor).copy()
    values.flat[0] += by
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return other


@pytest.mark.parametrize("pairs", [400, pytest.param(PAIRS, marks=pytest.mark.slow)])
def test_all_graphs_agree_with_torch_in_every_batch_size_and_however_they_are_run(
    pairs, tiny_network, graphs, artifact
):
    # Four hundred were compared where the artifact was exported.
    stored = Parity.from_dict(Manifest.load(artifact).parity)
    parity = stored if pairs == 400 else compare_graphs(tiny_network, graphs, pairs=pairs)
    assert inspect.signature(export_artifact).parameters["pairs"].default == PAIRS == 10_000
    parity.require()
    compared: dict[tuple[str, str], set[str]] = {}
    for d in parity.differences:
        compared.setdefault((d.graph, d.output), set()).add(d.against.partition(" (")[0])
        assert tuple(d.batches) == ((2,) if d.against == "reference evaluator" else (1, 2, 3, 8))
        ranked = d.graph == "pair" and d.against != "reference evaluator"
        assert d.pairs == (pairs if ranked else 0)
    plain = {"ONNX Runtime", "reference evaluator"}
    ours = plain | {"ONNX Runtime, inlined"}
    # What is not installed or not built is said, and missing everywhere.
    told = " ".join(parity.left_out)
    if "the kernel" not in told:
        ours |= {"ONNX Runtime, kernel"}
    assert compared == {
        ("panel", "tokens"): plain,
        ("panel", "embeddings"): plain,
        ("pair", "logits"): ours,
        ("explain", "attention"): ours,
    }
    assert 0 < parity.largest <= 1e-5


def test_what_earlier_versions_found_is_still_read():
    found = [Parity.from_dict(Manifest.load(MODELS / name).parity) for name in bundled_models()]
    assert all(parity.largest <= parity.tolerance == 1e-5 for parity in found)


@pytest.mark.parametrize(
    ("part", "weight", "by"),
    [("panel", "panel.position", 1e-3), ("pair", "head.2.bias", 1e-3), ("explain", "blocks.1.norm.bias", 0.1)],
)
def test_one_weight_that_moved_is_noticed_and_named(part, weight, by, tiny_network, graphs):
    # The explain graph takes half of the time.
    given = graphs if part == "explain" else graphs._replace(explain=None)
    moved = given._replace(**{part: perturbed(getattr(graphs, part), weight, by)})
    with pytest.raises(
        ArtifactError, match=rf"{part} graph, ONNX Runtime.*at most 1e-05 is allowed, so nothing was written"
    ):
        compare_graphs(tiny_network, moved, pairs=FEW).require()


def test_a_nan_never_passes_the_gate(tiny_network, graphs):
    broken = graphs._replace(pair=perturbed(graphs.pair, "head.2.bias", math.nan), explain=None)
    parity = compare_graphs(tiny_network, broken, pairs=FEW)
    assert math.isnan(parity.largest) or any(math.isnan(d.largest) for d in parity.differences)
    with pytest.raises(ArtifactError, match="logits by nan"):
        parity.require()


def test_a_graph_with_a_batch_of_its_own_is_refused(tiny_network, graphs):
    fixed = copy.deepcopy(graphs.pair)
    (node,) = [node for node in fixed.graph.node if "logits" in node.output]
    node.output[0] = "all"
    starts, ends = (numpy_helper.from_array(np.array([value]), name) for name, value in (("from", 0), ("to", 1)))
    fixed.graph.initializer.extend([starts, ends])
    fixed.graph.node.append(onnx.helper.make_node("Slice", ["all", "from", "to"], ["logits"]))
    with pytest.raises(ArtifactError, match=r"pair graph gives \(1,\) for a batch of 2, torch \(2,\)"):
        compare_graphs(tiny_network, graphs._replace(pair=fixed, explain=None), pairs=FEW)
