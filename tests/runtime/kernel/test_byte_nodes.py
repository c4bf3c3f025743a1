"""The nodes of the pair graph in 8 bits against their definitions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import KernelError, Library
from diptych_runtime.kernel.byte_nodes import (
    ByteNodes,
    gelu,
    reference_correspondence,
    reference_filter,
    reference_product,
)
from diptych_runtime.session import open_session, run_session


@pytest.fixture
def nodes(library: Library) -> ByteNodes:
    if not library.byte_instructions:
        pytest.skip("this processor has no AVX-512 VNNI")
    return library.bytes


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def layer_norm(x: np.ndarray, norm: np.ndarray) -> np.ndarray:
    """A layer norm over the last axis in float64."""
    x = x.astype(np.float64)
    apart = x - x.mean(-1, keepdims=True)
    return apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5) * norm[0] + norm[1]


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 16, 16), (7, 48, 32), (73, 96, 288), (150, 272, 112)])
def test_a_product_is_that_of_the_rounded_numbers_exactly(nodes, rows, depth, width):
    x, weights, bias = drawn(rows, depth), drawn(depth, width, seed=1), drawn(width, seed=2)
    expected = reference_product(x, weights, bias)
    np.testing.assert_allclose(nodes.multiply(x, weights, bias=bias), expected, atol=2e-5 * np.abs(expected).max())
    rounded_away = np.abs(expected - (x @ weights + bias)).max()
    assert 1e-4 < rounded_away < 0.05 * depth**0.5, "8 bits lose something, and little"


def test_norm_gelu_and_residual_are_taken_along(nodes):
    x, weights, norm = drawn(30, 96), drawn(96, 48, seed=1), drawn(2, 96, seed=2)
    bias, residual = drawn(48, seed=3), drawn(30, 48, seed=4)
    normed = layer_norm(x, norm).astype(np.float32)
    expected = gelu(reference_product(normed, weights, bias)) + residual
    got = nodes.multiply(x, weights, norm=norm, bias=bias, residual=residual, gelu=True)
    # Where a number lies in the middle of two bytes, either is right.
    assert np.mean(np.abs(got - expected) > 2e-4) < 0.02
    np.testing.assert_allclose(got, expected, atol=0.1)


def test_a_row_has_the_same_bits_whatever_the_others_are(nodes):
    x, weights, residual = drawn(80, 32), drawn(32, 96, seed=1), drawn(80, 96, seed=2)
    whole = nodes.multiply(x, weights, residual=residual, gelu=True)
    for first, count in ((0, 1), (3, 2), (71, 5), (79, 1)):
        rows = slice(first, first + count)
        part = nodes.multiply(x[rows], weights, residual=residual[rows], gelu=True)
        assert part.tobytes() == whole[rows].tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("normed", [False, True])
def test_what_is_no_number_is_not_hidden_and_stays_in_its_row(nodes, value, normed):
    x, weights = drawn(3, 48), drawn(48, 32, seed=1)
    norm = drawn(2, 48, seed=2) if normed else None
    whole = nodes.multiply(x, weights, norm=norm)
    for place in (0, 17, 47):
        spoiled = x.copy()
        spoiled[1, place] = value
        y = nodes.multiply(spoiled, weights, norm=norm)
        assert not np.isfinite(y[1]).any()
        assert np.array_equal(y[[0, 2]], whole[[0, 2]])


@pytest.mark.parametrize("norm", [None, drawn(2, 32, seed=5)])
@pytest.mark.parametrize("sides", [(3, 3), (1, 5)])
def test_a_filter_sees_zeros_outside_of_the_grid(nodes, norm, sides):
    x, filter = drawn(2, 5, 7, 32), drawn(*sides, 32, seed=1)
    expected = reference_filter(x if norm is None else layer_norm(x, norm), filter)
    np.testing.assert_allclose(nodes.filter(x, filter, norm=norm), expected, atol=1e-5)


@pytest.mark.parametrize(("rows", "cols", "merge", "width"), [(4, 4, 2, 10), (12, 12, 2, 62), (3, 16, 1, 33)])
def test_a_correspondence_is_what_the_definition_says(nodes, rows, cols, merge, width):
    a, b = drawn(rows, cols, width + 2), drawn(rows, cols, width + 2, seed=1)
    b[0, 0, :width], b[1, 1, :width] = a[1, 2, :width], 0  # a match, and a token of no length
    place = drawn(rows * cols, 2, seed=2)
    sizes = {"sharpness": 17.0, "width": width, "merge": merge}
    got, expected = nodes.correspond(a, b, place, **sizes), reference_correspondence(a, b, place, **sizes)
    assert len(got) == len(expected) == 6
    for mine, known in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, known, atol=5e-5)


def run_node(
    library: Library, name: str, inputs: list[np.ndarray], outputs: int = 1, **attributes: Any
) -> list[np.ndarray]:
    """The outputs of a graph of one node, run by ONNX Runtime."""
    names = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in inputs]
    given = [helper.make_tensor_value_info(*each, None) for each in zip(names[0], types, strict=True)]
    made = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in names[1]]
    graph = helper.make_graph([helper.make_node(name, *names, domain="diptych", **attributes)], "g", given, made)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("diptych", 1)]
    model = helper.make_model(graph, ir_version=9, opset_imports=opsets).SerializeToString()
    return run_session(open_session(model, library=library), dict(zip(names[0], inputs, strict=True)))


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def product_of(*sizes: tuple[int, ...]) -> list[np.ndarray]:
    """The inputs of a product: x, norm, scales, bias and residual of these sizes, and packed weights (16, 1024)."""
    x, norm, scales, bias, residual = (np.zeros(size, np.float32) for size in sizes)
    return [x, norm, np.zeros((64, 4, 16, 4), np.int8), scales, bias, residual]


@pytest.mark.parametrize(
    ("name", "inputs", "sizes"),
    [
        ("ByteProductV1", product_of((1, 16), (0,), (1, 1024), (0,), (0,)), {"gelu": 0}),
        ("ByteProductV1", product_of((1, 16), (0,), (0, 1024), (0,), (0,)), {"gelu": 0}),
        ("ByteProductV1", product_of((1, 32), (0,), (2, 1024), (0,), (0,)), {"gelu": 0}),
        ("ByteProductV1", product_of((1, 16), (16,), (2, 1024), (0,), (0,)), {"gelu": 0}),
        ("ByteProductV1", product_of((2, 16), (0,), (2, 1024), (0,), (1024,)), {"gelu": 0}),
        ("DepthwiseFilterV1", [zeros(1, 4, 4, 16), zeros(0), zeros(0, 3, 16)], {}),
        *(
            ("CorrespondenceV1", [zeros(1, rows, 4, 8), zeros(1, rows, 4, 8), zeros(2, 4 * rows), zeros(1)], sizes)
            for sizes in ({"width": 2**62, "merge": 1}, {"width": 4, "merge": 2**32}, {"width": 4, "merge": 0})
            for rows in (0, 4)
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(nodes, library, name, inputs, sizes):
    with pytest.raises(ArtifactError, match=rf"{name}: (the sizes of its inputs do not fit|expected x)"):
        run_node(library, name, inputs, 6 if name == "CorrespondenceV1" else 1, **sizes)


def _twice(made: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda *arguments, **options: 2 * made(*arguments, **options)


@pytest.mark.parametrize("name", ["multiply", "filter"])
def test_nodes_that_compute_something_else_are_not_used(nodes, name, monkeypatch):
    monkeypatch.setattr(nodes, name, _twice(getattr(nodes, name)))
    with pytest.raises(KernelError, match="nodes in 8 bits failed their self-test on this processor: wrong by"):
        nodes.self_test()
