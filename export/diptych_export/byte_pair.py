"""The pair graph in 8 bits: the same graph with its products, filters and correspondence as nodes of the kernel.

A graph for processors with AVX-512 VNNI alone, beside the float32 one, which stays the reference: its nodes have no
body of standard operators. What is not recognised is left as it is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import BYTE_PRODUCT, CORRESPONDENCE, DEPTHWISE, DOMAIN
from diptych_runtime.kernel.byte_nodes import BLOCK, EVIDENCE, packed_weights

_EPSILON = 1e-5  # of a layer norm, as the kernel has it
_SHARPEST = 40.0  # exp(-2 * sharpness) must be a float32


def in_bytes(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The pair graph in 8 bits. Raises ArtifactError where nothing of it can be, and for one that takes pixels."""
    if graph.graph.input[0].type.tensor_type.shape.dim[-1].dim_value == 3:
        raise ArtifactError(
            'the pair graph is the whole network (seam = "pixels"); only one that takes tokens can be in 8 bits'
        )
    rewriter = _Rewriter(graph)
    rewriter.replace_correspondence()
    rewriter.replace_filters()
    rewriter.replace_products()
    rewriter.merge_residuals()
    rewriter.merge_norms()
    made = rewriter.build_model()
    if not any(node.op_type == BYTE_PRODUCT for node in made.graph.node):
        raise ArtifactError("the pair graph has no product whose widths are multiples of 16, so none is in 8 bits")
    return made


class _Rewriter:
    """A graph whose nodes are replaced one pattern after another."""

    def __init__(self, graph: onnx.ModelProto) -> None:
        self.source = graph
        self.nodes: list[onnx.NodeProto] = [onnx.NodeProto.FromString(n.SerializeToString()) for n in graph.graph.node]
        self.constants = {each.name: numpy_helper.to_array(each) for each in graph.graph.initializer}
        self.empty = self._add_constant("byte_pair.none", np.zeros(0, np.float32))

    def build_model(self) -> onnx.ModelProto:
        """The graph as it is now, with its nodes sorted and unused ones removed."""
        self._prune_nodes()
        used = {name for node in self.nodes for name in node.input}
        made = onnx.ModelProto.FromString(self.source.SerializeToString())
        del made.functions[:], made.graph.node[:], made.graph.initializer[:], made.graph.value_info[:]
        for value in made.graph.input:  # as they are stored, and half as much to put in order
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
            self._rename_value(value.name, f"{value.name}.float32", None)
            cast = helper.make_node("Cast", [value.name], [f"{value.name}.float32"], to=onnx.TensorProto.FLOAT)
            self.nodes.append(cast)
        made.graph.node.extend(self._sort_nodes())
        made.graph.initializer.extend(
            numpy_helper.from_array(np.ascontiguousarray(value), name)
            for name, value in self.constants.items()
            if name in used
        )
        onnx.checker.check_model(made)
        return made

    def replace_correspondence(self) -> None:
        """Replace all that computes the correspondence of two panels by one node.

        That is what is made of a matrix of cosines which two softmaxes read in both directions. A graph without one in
        the form that `Correspondence` is exported in stays as it is.
        """
        try:
            node, replaced = self._make_correspondence()
        except (ValueError, KeyError):  # something is missing, or there more than once
            return
        self.nodes.append(node)
        for old, new in zip(replaced, node.output, strict=True):
            self._rename_value(old, new, node)

    def _make_correspondence(self) -> tuple[onnx.NodeProto, list[str]]:
        """The node, and the values in whose place its outputs are. Raises ValueError or KeyError if there is none."""
        softmaxes = [node for node in self.nodes if node.op_type == "Softmax"]
        turned = [node for node in softmaxes if self._made_by(node.input[0], "Transpose")]
        (over_b,) = [node for node in softmaxes if node not in turned]
        (over_a,) = turned
        sharp = self._walk_up(over_b.input[0], "Mul")
        cosines = self._walk_up(sharp.input[0], "MatMul")
        units = cosines.input[0], self._walk_up(cosines.input[1], "Transpose").input[0]
        slices = [self._walk_up(unit, "Div", "Reshape", "Slice") for unit in units]
        tokens = [each.input[0] for each in slices]
        sharpness, width = self._known_number(sharp.input[1]), int(self._known_number(slices[0].input[2]))
        if (
            tokens != [value.name for value in self.source.graph.input]
            or self._walk_up(over_a.input[0], "Transpose").input[0] != sharp.output[0]
            or not 0 < sharpness <= _SHARPEST
        ):
            raise ValueError("the softmaxes are not those of a correspondence of the inputs")
        found = [self._constant_value(node.input[1]) for node in self._consumers(over_b.output[0])]
        (place,) = [value for value in found if value is not None]
        merged, sizes = zip(*map(self._merged_value, units), strict=True)
        maxima = [node for node in self._consumers(cosines.output[0]) if node.op_type == "ReduceMax"]
        best = {int(self._known_number(node.input[1])) % 3: node.output[0] for node in maxima}
        means = [self._only_reader(unit, "ReduceMean").output[0] for unit in units]
        names = [f"byte_pair.{name}_{side}" for name in ("merged", "best", "mean") for side in "ab"]
        inputs = [
            *tokens,
            self._add_constant("byte_pair.place", place.T),
            self._add_constant("byte_pair.sharpness", np.array([sharpness], np.float32)),
        ]
        merge = math.isqrt(sizes[0] // (width + EVIDENCE))
        node = helper.make_node(CORRESPONDENCE, inputs, names, domain=DOMAIN, width=width, merge=merge)
        return node, [*merged, best[2], best[1], *means]

    def _merged_value(self, unit: str) -> tuple[str, int]:
        """The output of the nodes that join tokens with their evidence and their neighbours, and its channels."""
        name, node = self._only_reader(unit, "Mul").output[0], None
        for kind in ("Concat", "Reshape", "Transpose", "Reshape"):
            node = self._only_consumer(name)
            if node is None or node.op_type != kind:
                raise ValueError(f"expected {kind} alone behind {name}")
            name = node.output[0]
        shape = None if node is None else self._constant_value(node.input[1])
        if shape is None:
            raise ValueError(f"the shape of {name} is not known")
        return name, int(shape[-1])

    def _walk_up(self, name: str, *kinds: str) -> onnx.NodeProto:
        """The last of the nodes of these kinds, each the producer of the first input of the one before it."""
        node = None
        for kind in kinds:
            node = self._producer(name if node is None else node.input[0])
            if node is None or node.op_type != kind:
                raise ValueError(f"expected {kind} before {name}")
        assert node is not None
        return node

    def _made_by(self, name: str, kind: str) -> bool:
        node = self._producer(name)
        return node is not None and node.op_type == kind

    def _only_reader(self, name: str, kind: str) -> onnx.NodeProto:
        """The only consumer of this kind. Raises ValueError."""
        (reader,) = [node for node in self._consumers(name) if node.op_type == kind]
        return reader

    def _known_number(self, name: str) -> float:
        value = self._constant_value(name)
        if value is None:
            raise ValueError(f"{name} is not known before the graph runs")
        return float(value.ravel()[0])

    def replace_filters(self) -> None:
        """Replace depthwise convolutions between two transpositions, which channels last do not need."""
        for conv in [node for node in self.nodes if node.op_type == "Conv" and len(node.input) == 2]:
            before, after = self._producer(conv.input[0]), self._only_consumer(conv.output[0])
            weights = self._constant_value(conv.input[1])
            if before is None or after is None or weights is None or weights.ndim != 4:
                continue
            channels, one, *sides = weights.shape
            plain = {"group": channels, "pads": [side // 2 for side in sides] * 2, "strides": [1, 1]}
            if (
                (before.op_type, after.op_type) != ("Transpose", "Transpose")
                or (_node_attribute(before, "perm"), _node_attribute(after, "perm")) != ([0, 3, 1, 2], [0, 2, 3, 1])
                or any(_node_attribute(conv, name, value) != value for name, value in plain.items())
                or _node_attribute(conv, "dilations", [1, 1]) != [1, 1]
                or _node_attribute(conv, "auto_pad", b"NOTSET") != b"NOTSET"
                or one != 1
                or channels % BLOCK
                or not all(side % 2 for side in sides)
            ):
                continue
            filter = self._add_constant(f"{conv.name}.filter", weights[:, 0].transpose(1, 2, 0))
            node = helper.make_node(DEPTHWISE, [before.input[0], self.empty, filter], [after.output[0]], domain=DOMAIN)
            self._replace_nodes([conv, after], node)

    def replace_products(self) -> None:
        """Replace products with constants, and the bias and the GELU behind them."""
        for product in [node for node in self.nodes if node.op_type == "MatMul"]:
            weights = self._constant_value(product.input[1])
            if weights is None or weights.ndim != 2 or any(size % BLOCK for size in weights.shape):
                continue
            packed, scales = packed_weights(weights)
            gone, last, bias, gelu = [product], product.output[0], self.empty, 0
            following = self._only_consumer(last)
            if following is not None and following.op_type == "Add":
                value = next((v for name in following.input if (v := self._constant_value(name)) is not None), None)
                if value is not None and value.shape == weights.shape[1:]:
                    bias = self._add_constant(f"{product.name}.bias", value)
                    gone.append(following)
                    last = following.output[0]
                    following = self._only_consumer(last)
            if following is not None and following.op_type == "Gelu" and _is_exact_gelu(following):
                gelu = 1
                gone.append(following)
                last = following.output[0]
            inputs = [
                product.input[0],
                self.empty,
                self._add_constant(f"{product.name}.weights", packed),
                self._add_constant(f"{product.name}.scales", scales),
                bias,
                self.empty,
            ]
            node = helper.make_node(BYTE_PRODUCT, inputs, [last], product.name, domain=DOMAIN, gelu=gelu)
            self._replace_nodes(gone, node)

    def merge_residuals(self) -> None:
        """Make sums of a product and another value part of the product."""
        for add in [node for node in self.nodes if node.op_type == "Add"]:
            for mine, other in ((1, 0), (0, 1)):
                product, reshape = self._product_of(add.input[mine])
                if product is None or self._constant_value(add.input[other]) is not None:
                    continue
                if reshape is None:
                    product.output[0] = add.output[0]
                else:
                    reshape.output[0] = add.output[0]
                product.input[5] = add.input[other]
                self.nodes.remove(add)
                break

    def merge_norms(self) -> None:
        """Make layer norms part of the products and filters that alone read them."""
        self._prune_nodes()
        for norm in [node for node in self.nodes if node.op_type == "LayerNormalization"]:
            weights = [value for name in norm.input[1:] if (value := self._constant_value(name)) is not None]
            plain = (
                abs(_node_attribute(norm, "epsilon", _EPSILON) - _EPSILON) < 1e-9
                and _node_attribute(norm, "axis", -1) == -1
            )
            if not plain or len(weights) != 2 or weights[0].size % BLOCK:
                continue
            readers = [(norm.output[0], node) for node in self._consumers(norm.output[0])]
            reshapes = [node for _, node in readers if node.op_type == "Reshape"]
            for reshape in reshapes:
                readers.remove((norm.output[0], reshape))
                readers += [(reshape.output[0], node) for node in self._consumers(reshape.output[0])]
            if any(node.op_type not in (BYTE_PRODUCT, DEPTHWISE) or node.input[0] != name for name, node in readers):
                continue
            both = self._add_constant(f"{norm.name}.norm", np.stack(weights))
            for _, node in readers:
                node.input[1] = both
            self._rename_value(norm.output[0], norm.input[0], norm)
            self.nodes.remove(norm)

    def _product_of(self, name: str) -> tuple[onnx.NodeProto | None, onnx.NodeProto | None]:
        """The product whose result this is, or is added to, and that has room for a residual; and a reshaping between
        them. Nothing else may read what is between them.
        """
        reshape = None
        node = self._producer(name)
        if node is not None and node.op_type == "Reshape":
            if self._only_consumer(name) is None:
                return None, None
            reshape, name = node, node.input[0]
            node = self._producer(name)
        if node is None or node.op_type != BYTE_PRODUCT or self._only_consumer(name) is None:
            return None, None
        first = node
        while first.input[5] != self.empty:
            name = first.input[5]
            above = self._producer(name)
            if above is None or above.op_type != BYTE_PRODUCT or self._only_consumer(name) is None or not reshape:
                return None, None
            first = above
        return (first, reshape) if reshape is not None or first is node else (None, None)

    def _prune_nodes(self) -> None:
        outputs = {value.name for value in self.source.graph.output}
        while dead := [n for n in self.nodes if not any(self._consumers(o) or o in outputs for o in n.output)]:
            self.nodes = [node for node in self.nodes if node not in dead]

    def _add_constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = value
        return name

    def _constant_value(self, name: str) -> np.ndarray | None:
        """A constant, or a constant transposed or reshaped; None for a value that depends on the inputs."""
        if name in self.constants:
            return self.constants[name]
        node = self._producer(name)
        if node is None or node.op_type not in ("Transpose", "Reshape"):
            return None
        value = self._constant_value(node.input[0])
        if value is None:
            return None
        if node.op_type == "Transpose":
            return value.transpose(_node_attribute(node, "perm"))
        shape = self._constant_value(node.input[1])
        return None if shape is None else value.reshape(shape.tolist())

    def _producer(self, name: str) -> onnx.NodeProto | None:
        return next((node for node in self.nodes if name in node.output), None)

    def _consumers(self, name: str) -> list[onnx.NodeProto]:
        return [node for node in self.nodes if name in node.input]

    def _only_consumer(self, name: str) -> onnx.NodeProto | None:
        consumers = self._consumers(name)
        return consumers[0] if len(consumers) == 1 and Counter(consumers[0].input)[name] == 1 else None

    def _replace_nodes(self, old: list[onnx.NodeProto], new: onnx.NodeProto) -> None:
        self.nodes = [node for node in self.nodes if node not in old]
        self.nodes.append(new)

    def _rename_value(self, old: str, new: str, but: onnx.NodeProto | None) -> None:
        for node in self._consumers(old):
            if node is not but:
                node.input[:] = [new if name == old else name for name in node.input]

    def _sort_nodes(self) -> Iterator[onnx.NodeProto]:
        known = {value.name for value in self.source.graph.input} | self.constants.keys()
        left = list(self.nodes)
        while left:
            ready = [node for node in left if all(not name or name in known for name in node.input)]
            if not ready:
                raise ArtifactError("the pair graph has a circle after it was rewritten in 8 bits")
            for node in ready:
                known |= set(node.output)
                left.remove(node)
                yield node


def _is_exact_gelu(gelu: onnx.NodeProto) -> bool:
    return _node_attribute(gelu, "approximate", b"none") == b"none"


def _node_attribute(node: onnx.NodeProto, name: str, default: object = None) -> Any:
    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)
