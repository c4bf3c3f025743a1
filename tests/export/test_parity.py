import copy
import math

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from diptych_export.errors import ArtifactError
from diptych_export.graphs import Graphs
from diptych_export.manifest import Manifest
from diptych_export.parity import Difference, Parity, compare, drawn_pixels


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


def test_all_graphs_agree_with_torch_in_every_batch_size_and_under_two_executors(tiny_network, graphs):
    parity = compare(tiny_network, graphs)
    parity.require()
    compared = {(d.graph, d.output, d.against): d.batches for d in parity.differences}
    assert set(compared) == {
        (graph, output, against)
        for graph, output in (
            ("panel", "tokens"),
            ("panel", "embeddings"),
            ("pair", "logits"),
            ("explain", "attention"),
        )
        for against in ("ONNX Runtime", "reference evaluator")
    }
    assert (
        compared["pair", "logits", "ONNX Runtime"] == compared["explain", "attention", "ONNX Runtime"] == (1, 2, 3, 8)
    )
    assert 0 < parity.largest <= 1e-5
    assert 0 < parity.half_precision < 1e-2


@pytest.mark.parametrize(
    ("part", "weight", "by"),
    [("panel", "panel.position", 1e-3), ("pair", "head.2.bias", 1e-3), ("explain", "blocks.1.norm.bias", 0.1)],
)
def test_one_weight_that_moved_is_noticed_and_named(part, weight, by, tiny_network, graphs):
    moved = graphs._replace(**{part: perturbed(getattr(graphs, part), weight, by)})
    with pytest.raises(
        ArtifactError, match=rf"{part} graph, ONNX Runtime.*at most 1e-05 is allowed, so nothing was written"
    ):
        compare(tiny_network, moved).require()


def test_a_nan_never_passes_the_gate(tiny_network, graphs):
    broken = graphs._replace(pair=perturbed(graphs.pair, "head.2.bias", math.nan))
    parity = compare(tiny_network, broken)
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
        compare(tiny_network, graphs._replace(pair=fixed))


def test_the_table_and_the_manifest_tell_the_same_figures(artifact):
    stored = Manifest.load(artifact).parity
    parity = Parity(
        tuple(Difference(**d) for d in stored["differences"]), stored["half_precision"], stored["tolerance"]
    )
    assert stored["largest"] == parity.largest
    assert len(parity.text().splitlines()) == 2 + len(parity.differences)
    assert f"{parity.differences[-1].largest:.1e}" in parity.text()


def test_drawn_pictures_follow_from_the_seed_and_fill_the_range():
    pixels = drawn_pixels(3, 48, seed=7)
    assert (pixels.shape, pixels.dtype) == ((3, 48, 48, 3), np.uint8)
    assert np.array_equal(pixels, drawn_pixels(3, 48, seed=7))
    assert not np.array_equal(pixels, drawn_pixels(3, 48, seed=8))
    assert pixels.min() < 20
    assert pixels.max() > 235
