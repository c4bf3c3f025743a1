"""The body of our node: standard operators that compute the definition, in every opset it is written in."""

import numpy as np
import onnx
import onnxruntime
import pytest
from problems import Case, cases

from diptych_export.custom_op import OPSETS, function_body
from diptych_runtime.kernel import DOMAIN, NAME
from diptych_runtime.kernel.library import reference_attention


def model_of(case: Case, opset: int) -> onnx.ModelProto:
    """One node with its body; the table is an initializer, as in a graph that was exported."""
    attributes = case.sizes | {"joined": int(case.sizes["joined"])}
    node = onnx.helper.make_node(NAME, ["projected", "table"], ["attended"], domain=DOMAIN)
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in attributes.items())
    taken, given = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("projected", "attended")
    )
    table = onnx.numpy_helper.from_array(case.table, "table")
    graph = onnx.helper.make_graph([node], "one", [taken], [given], [table])
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(DOMAIN, 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, functions=[function_body(opset)], ir_version=10)


@pytest.mark.parametrize("opset", OPSETS)
def test_the_body_computes_the_definition_in_onnx_runtime(opset: int) -> None:
    # The first and the last are written most differently.
    for case in cases(25 if opset in (OPSETS[0], OPSETS[-1]) else 8, seed=opset):
        session = onnxruntime.InferenceSession(
            model_of(case, opset).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (got,) = session.run(None, {"projected": case.projected})
        np.testing.assert_allclose(
            np.asarray(got), reference_attention(case.projected, case.table, **case.sizes), atol=1e-5
        )


def test_the_kernel_takes_the_place_of_whatever_the_body_says(library) -> None:
    case = next(cases(1, seed=0))
    model = model_of(case, OPSETS[-1])
    # A body that gives the opposite: so the two can be told apart.
    last = next(node for node in model.functions[0].node if "attended" in node.output)
    last.output[0] = "opposite"
    model.functions[0].node.append(onnx.helper.make_node("Neg", ["opposite"], ["attended"]))
    expected = reference_attention(case.projected, case.table, **case.sizes)
    for sign, registered in ((-1, False), (1, True)):
        options = onnxruntime.SessionOptions()
        if registered:
            options.register_custom_ops_library(str(library.path))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        (got,) = session.run(None, {"projected": case.projected})
        np.testing.assert_allclose(np.asarray(got), sign * expected, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_registered_kernel_computes_what_the_library_does(library, threads: int) -> None:
    for case in cases(20, seed=9):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.register_custom_ops_library(str(library.path))
        model = model_of(case, OPSETS[-1]).SerializeToString()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        (got,) = session.run(None, {"projected": case.projected})
        assert np.array_equal(np.asarray(got), library.attend(case.projected, case.table, **case.sizes))


def test_shapes_that_do_not_fit_end_the_run_in_words(library) -> None:
    case = next(cases(1, seed=0))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(library.path))
    model = model_of(case, OPSETS[-1]).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    with pytest.raises(Exception, match=r"diptych::RelPosAttentionV2: .* positions, the input has"):
        session.run(None, {"projected": np.concatenate([case.projected] * 2, 1)})
