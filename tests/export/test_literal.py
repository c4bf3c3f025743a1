"""An artifact of the literal form: one graph from both pictures' pixels to the logits, in both orders.

No released model has it, and to export this one takes longer than the next ten tests: what is slow here is run by
.ci/run. By default the form is held in torch, by `test_network` of the model and `test_literal` of training.
"""

import numpy as np
import onnx
import pytest
import torch
from exported import make_literal_network

from diptych_export.parity import drawn_pixels
from diptych_export.triton import write_repository
from diptych_runtime.kernel import NAME
from diptych_runtime.runtime import Runtime

PIXELS = drawn_pixels(5, 32, seed=4)


@pytest.fixture(scope="module")
def runtime(literal_artifact):
    return Runtime.open(literal_artifact, provider="cpu", threads=1)


@pytest.mark.slow
def test_the_pair_graph_is_the_whole_network_and_takes_pixels(literal_artifact):
    pair = onnx.load(literal_artifact / "pair.onnx")
    shapes = {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in pair.graph.input}
    assert shapes == {"tokens_a": ["batch", 32, 32, 3], "tokens_b": ["batch", 32, 32, 3]}
    kinds = [(node.domain, node.op_type) for node in pair.graph.node]
    # The trunk's nodes twice, for both orders, with weights that are there once.
    assert kinds.count(("diptych", NAME)) == 2 * 2 * make_literal_network().config.blocks
    panel = onnx.load(literal_artifact / "panel.onnx")
    stem = sum("Conv" in kind for _, kind in kinds)
    assert stem > sum(node.op_type == "Conv" for node in panel.graph.node)
    stored = sum(int(np.prod(tensor.dims)) for tensor in pair.graph.initializer)
    assert stored < 1.5 * sum(parameter.numel() for parameter in make_literal_network().parameters())


@pytest.mark.slow
def test_what_is_kept_of_a_picture_are_its_pixels_exactly(runtime):
    assert runtime.token_shape == (32, 32, 3)
    assert runtime.manifest.scores_pixels
    panels = runtime.encode(PIXELS)
    assert np.array_equal(panels.tokens, PIXELS.astype(np.float16))
    assert panels.embeddings.shape == (5, 10)


@pytest.mark.slow
def test_the_runtime_computes_what_torch_computes_and_order_leaves_no_trace(runtime):
    network = make_literal_network()
    a, b = (torch.from_numpy(side).permute(0, 3, 1, 2) / 255 for side in (PIXELS[:4], PIXELS[1:]))
    with torch.no_grad():
        wanted = network(a, b).numpy()
    tokens = runtime.encode(PIXELS).tokens
    found = runtime.pair_logits(tokens[:4], tokens[1:])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.array_equal(found, runtime.pair_logits(tokens[1:], tokens[:4]))
    seen = runtime.attention(tokens[:1], tokens[1:2])
    assert seen.shape == (1, 16, 16)
    assert np.array_equal(seen, runtime.attention(tokens[1:2], tokens[:1]).swapaxes(1, 2))


@pytest.mark.slow
def test_the_graph_itself_scores_both_orders_alike(literal_artifact):
    import onnxruntime

    session = onnxruntime.InferenceSession(literal_artifact / "pair.onnx", providers=["CPUExecutionProvider"])
    a, b = PIXELS[:4].astype(np.float32), PIXELS[1:].astype(np.float32)
    one, other = (session.run(None, {"tokens_a": x, "tokens_b": y})[0] for x, y in ((a, b), (b, a)))
    assert np.array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.slow
def test_triton_is_served_it_too(literal_artifact, tmp_path):
    assert write_repository(literal_artifact, tmp_path / "models") == ["literal_panel", "literal_pair", "literal"]
