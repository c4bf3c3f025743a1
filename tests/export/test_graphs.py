import numpy as np
import onnx
import onnxruntime
import pytest

from diptych_export.errors import ArtifactError
from diptych_export.graphs import OPSET, RelPosAttention, export_graphs


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
    assert nodes == ["RelPosAttention"] * tiny_network.config.blocks
    assert [(f.domain, f.name) for f in pair.functions] == [("diptych", "RelPosAttention")]
    assert {node.domain for node in pair.functions[0].node} == {""}
    assert not panel.functions
    # What the explain graph shows is written out, for the node keeps it to itself; the last block ends with it.
    assert len([node for node in explain.graph.node if node.domain == "diptych"]) == tiny_network.config.blocks - 1


@pytest.mark.parametrize(("d_a", "d_o"), [(5, 5), (5, 7)])
def test_the_body_is_softmax_attention_with_the_bias_added_and_keys_normalised(d_a, d_o):
    function = RelPosAttention.to_function_proto()
    info = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("q", "k", "v", "bias", "y")
    ]
    node = onnx.helper.make_node("RelPosAttention", ["q", "k", "v", "bias"], ["y"], domain="diptych")
    imports = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("diptych", 1)]
    graph = onnx.helper.make_graph([node], "one", info[:4], info[4:])
    model = onnx.helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=10)
    rng = np.random.default_rng(2)
    q, k = rng.normal(size=(2, 3, 2, 11, d_a)).astype(np.float32)
    v, bias = rng.normal(size=(3, 2, 11, d_o)).astype(np.float32), rng.normal(size=(2, 11, 11)).astype(np.float32)
    scores = np.einsum("bcid,bcrd->bcir", q, k, dtype=np.float64) / np.sqrt(d_a) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bcir,bcrd->bcid", weights / weights.sum(-1, keepdims=True), v)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"q": q, "k": k, "v": v, "bias": bias})
    np.testing.assert_allclose(np.asarray(got), expected, atol=2e-6)


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
    with pytest.raises(ArtifactError, match=r"opset 17 cannot be written.*use --opset 23"):
        export_graphs(tiny_network, opset=17)
