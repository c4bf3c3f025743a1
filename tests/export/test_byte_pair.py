"""The pair graph in 8 bits: which nodes it is made of, and what it computes."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from diptych_export.byte_pair import in_bytes
from diptych_runtime.errors import ArtifactError
from diptych_runtime.models import MODELS


@pytest.fixture(scope="module", params=["photo", "photo-small"])
def exact(request):
    return onnx.load(MODELS / request.param / "pair.onnx")


def test_the_released_graphs_in_8_bits_are_those_made_of_the_released_graphs(exact, request):
    name = request.node.callspec.params["exact"]
    assert in_bytes(exact).SerializeToString(deterministic=True) == (MODELS / name / "pair-int8.onnx").read_bytes()


@pytest.mark.parametrize(
    ("sizes", "said"),
    [("b, 12", "no product whose widths are multiples of 16"), ("b, 32, 32, 3", "only one that takes tokens")],
)
def test_a_graph_without_such_products_and_one_that_takes_pixels_are_refused(sizes, said):
    head = '<ir_version: 10, opset_import: ["" : 20]>'
    graph = onnx.parser.parse_model(f"{head} g (float[{sizes}] x) => (float[b] y) {{ y = MatMul(x, w) }}")
    graph.graph.initializer.append(numpy_helper.from_array(np.ones((12, 5), np.float32), "w"))
    with pytest.raises(ArtifactError, match=said):
        in_bytes(graph)
