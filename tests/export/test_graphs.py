from pathlib import Path

import numpy as np
import onnx
import pytest

from diptych_export import graphs as module
from diptych_export.graphs import OPSET, export_aligned, export_graphs
from diptych_model.networks.aligned import AlignedPairNetwork
from diptych_runtime.closer_look import aligned
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import NAME


@pytest.fixture(scope="module")
def graphs(artifact):
    return tuple(onnx.load(artifact / f"{part}.onnx") for part in ("panel", "pair", "explain"))


def shape(value):
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_inputs_and_outputs_have_the_stated_names_types_and_shapes(graphs):
    described = [
        {v.name: (v.type.tensor_type.elem_type, *shape(v)) for v in values}
        for model in graphs
        for values in (model.graph.input, model.graph.output)
    ]
    uint8, float32 = onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT
    assert described == [
        {"pixels": (uint8, "batch", 32, 32, 3)},
        {"tokens": (float32, "batch", 4, 4, 12), "embeddings": (float32, "batch", 10)},
        {"tokens_a": (float32, "batch", 4, 4, 12), "tokens_b": (float32, "batch", 4, 4, 12)},
        {"logits": (float32, "batch")},
        {"tokens_a": (float32, "batch", 4, 4, 12), "tokens_b": (float32, "batch", 4, 4, 12)},
        {"attention": (float32, "batch", 16, 16)},
    ]


def test_attention_is_one_node_of_our_own_with_a_body_of_standard_operators(graphs, tiny_network):
    panel, pair, explain = graphs
    assert {entry.domain: entry.version for entry in pair.opset_import} == {"": OPSET, "diptych": 1}
    nodes = [node.op_type for node in pair.graph.node if node.domain == "diptych"]
    # One for the scale that sees single positions, one for that which sees windows.
    assert nodes == [NAME, NAME] * tiny_network.config.blocks
    assert [(f.domain, f.name) for f in pair.functions] == [("diptych", NAME)]
    assert {node.domain for node in pair.functions[0].node} == {""}
    assert not panel.functions
    # What the explain graph shows is written out, for the node keeps it to itself; the last block ends with it.
    shown = [node for node in explain.graph.node if node.domain == "diptych"]
    assert len(shown) == 2 * (tiny_network.config.blocks - 1)


def test_the_dense_bias_is_not_in_the_file(graphs, tiny_network):
    _, pair, explain = graphs
    largest = max(np.prod(tensor.dims) for model in (pair, explain) for tensor in model.graph.initializer)
    assert largest <= max(parameter.numel() for parameter in tiny_network.pair.parameters())


def test_no_path_of_the_exporting_machine_is_in_the_file(artifact):
    for file in ("panel.onnx", "pair.onnx", "explain.onnx"):
        data = (artifact / file).read_bytes()
        assert b".py" not in data
        assert b"stack_trace" not in data


def test_another_opset_is_refused_with_the_one_that_works(tiny_network):
    with pytest.raises(ArtifactError, match=r"opset 17 cannot be written: use --opset 23.*18, 19, 20, 21, 22"):
        export_graphs(tiny_network, opset=17)


def test_a_graph_of_the_closer_look_that_answers_otherwise_than_torch_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Other weights than the network has.
    monkeypatch.setattr(
        module, "_export_module", lambda *_: onnx.load(Path(aligned.__file__).with_name("aligned.onnx"))
    )
    with pytest.raises(ArtifactError, match=r"the graph of AlignedPairNetwork says \[-?\d.*\], and torch"):
        export_aligned(AlignedPairNetwork((4, 8, 12, 16)).eval())
