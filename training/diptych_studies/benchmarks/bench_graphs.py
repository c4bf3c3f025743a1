"""Writes the graphs that `diptych bench` measures a machine by. Needs onnx.

    python -m diptych_studies.benchmarks.bench_graphs service/diptych/bench/graphs

Weights are made when the graph is loaded, each of one number repeated: products cost the same, and a file is a few
kilobytes. No two have the same number, or ONNX Runtime would keep one for both.
"""

from __future__ import annotations

import sys
import zlib
from math import prod
from pathlib import Path

import onnx
import onnx.parser

SGEMM_SIZE = 1024
WIDTH, HEADS, LAYERS, PATCH, HEIGHT, COLUMNS = 384, 6, 12, 16, 224, 448
TOKENS = 1 + (HEIGHT // PATCH) * (COLUMNS // PATCH)
_HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


def sgemm(size: int = SGEMM_SIZE) -> onnx.ModelProto:
    """One product of two square matrices."""
    return onnx.parser.parse_model(
        f"{_HEAD}sgemm (float[{size}, {size}] a, float[{size}, {size}] b) => (float[{size}, {size}] c)\n"
        "{ c = MatMul (a, b) }"
    )


def vit_s16_pair() -> onnx.ModelProto:
    """ViT-S/16 over t = [x, z] and a head of one number; no weights of anybody."""
    lines = [
        *_weight_lines("embed", WIDTH, 3, PATCH, PATCH),
        f"patches = Conv <strides: ints = [{PATCH}, {PATCH}]> (pixels, embed)",
        *_shape_lines("sequence", 0, WIDTH, -1),
        "channels = Reshape (patches, sequence)",
        "embedded = Transpose <perm: ints = [0, 2, 1]> (channels)",
        *_weight_lines("place", 1, TOKENS, WIDTH),
        "first = Constant <value = int64[1] {0}> ()",
        "second = Constant <value = int64[1] {1}> ()",
        "tokens_axis = Constant <value = int64[1] {1}> ()",
        "one_patch = Slice (embedded, first, second, tokens_axis)",
        "classed = Concat <axis: int = 1> (one_patch, embedded)",
        "x0 = Add (classed, place)",
        *_weight_lines("scale", WIDTH),
        *_weight_lines("shift", WIDTH),
        *_shape_lines("split", 0, TOKENS, 3, HEADS, WIDTH // HEADS),
        *_shape_lines("joined", 0, TOKENS, WIDTH),
        "root = Constant <value = float {0.125}> ()",
    ]
    for layer in range(LAYERS):
        lines += _layer_lines(layer)
    lines += [
        f"normed = LayerNormalization (x{LAYERS}, scale, shift)",
        "token = Gather <axis: int = 1> (normed, zero)",
        *_weight_lines("head", WIDTH, 1),
        "logits = MatMul (token, head)",
    ]
    lines.insert(0, "zero = Constant <value = int64 {0}> ()")
    body = "\n".join(lines)
    return onnx.parser.parse_model(
        f"{_HEAD}vit (float[batch, 3, {HEIGHT}, {COLUMNS}] pixels) => (float[batch, 1] logits) {{\n{body}\n}}"
    )


def cnn_pair() -> onnx.ModelProto:
    """ResNet-18 over [x; z] in six channels, its norms folded into the convolutions; no weights of anybody."""
    lines = [
        *_convolution_lines("x0", "pixels", 6, 64, 7, 2),
    ]
    lines += ["y0 = MaxPool <kernel_shape: ints = [3, 3], strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (x0)"]
    taken = 64
    for block in range(8):
        width, stride = 64 * 2 ** (block // 2), 1 + (block > 0 and block % 2 == 0)
        lines += _convolution_lines(f"in{block}", f"y{block}", taken, width, 3, stride)
        lines += _convolution_lines(f"out{block}", f"in{block}", width, width, 3, 1)
        kept = f"y{block}"
        if taken != width:
            kept = f"kept{block}"
            lines += _convolution_lines(kept, f"y{block}", taken, width, 1, stride)
        lines += [f"sum{block} = Add (out{block}, {kept})", f"y{block + 1} = Relu (sum{block})"]
        taken = width
    lines += [
        "pooled = GlobalAveragePool (y8)",
        "flat = Flatten (pooled)",
        *_weight_lines("head", taken, 1),
        "logits = MatMul (flat, head)",
    ]
    body = "\n".join(lines)
    return onnx.parser.parse_model(
        f"{_HEAD}cnn (float[batch, 6, {HEIGHT}, {HEIGHT}] pixels) => (float[batch, 1] logits) {{\n{body}\n}}"
    )


def late_interaction() -> onnx.ModelProto:
    """Late interaction of unit tokens, a of a query and b of candidates: the mean of the best matches, both ways."""
    body = """
        query = Cast <to: int = 1> (a)
        candidates = Cast <to: int = 1> (b)
        turned = Transpose <perm: ints = [0, 2, 1]> (candidates)
        cosines = MatMul (query, turned)
        rows = Constant <value = int64[1] {1}> ()
        columns = Constant <value = int64[1] {2}> ()
        best_b = ReduceMax <keepdims: int = 0> (cosines, columns)
        best_a = ReduceMax <keepdims: int = 0> (cosines, rows)
        mean_a = ReduceMean <keepdims: int = 0> (best_a, rows)
        mean_b = ReduceMean <keepdims: int = 0> (best_b, rows)
        total = Add (mean_a, mean_b)
        half = Constant <value = float {0.5}> ()
        scores = Mul (total, half)
    """
    taken = "float16[1, tokens, width] a, float16[pairs, tokens, width] b"
    return onnx.parser.parse_model(f"{_HEAD}late ({taken}) => (float[pairs] scores) {{{body}}}")


def _convolution_lines(name: str, x: str, taken: int, given: int, size: int, stride: int) -> list[str]:
    """A convolution with bias, then a ReLU. Its weights sum to about one, so that numbers stay finite."""
    pads = ", ".join([str(size // 2)] * 4)
    return [
        *_weight_lines(f"{name}_w", given, taken, size, size, total=1.0),
        *_weight_lines(f"{name}_b", given),
        f"{name}_c = Conv <strides: ints = [{stride}, {stride}], pads: ints = [{pads}]> ({x}, {name}_w, {name}_b)",
        f"{name} = Relu ({name}_c)",
    ]


def _layer_lines(n: int) -> list[str]:
    return [
        f"a{n} = LayerNormalization (x{n}, scale, shift)",
        *_weight_lines(f"qkv_w{n}", WIDTH, 3 * WIDTH),
        f"qkv{n} = MatMul (a{n}, qkv_w{n})",
        f"parts{n} = Reshape (qkv{n}, split)",
        f"turned{n} = Transpose <perm: ints = [2, 0, 3, 1, 4]> (parts{n})",
        f"q{n} = Gather <axis: int = 0> (turned{n}, zero)",
        f"k_at{n} = Constant <value = int64 {{1}}> ()",
        f"k{n} = Gather <axis: int = 0> (turned{n}, k_at{n})",
        f"v_at{n} = Constant <value = int64 {{2}}> ()",
        f"v{n} = Gather <axis: int = 0> (turned{n}, v_at{n})",
        f"kt{n} = Transpose <perm: ints = [0, 1, 3, 2]> (k{n})",
        f"products{n} = MatMul (q{n}, kt{n})",
        f"scores{n} = Mul (products{n}, root)",
        f"shares{n} = Softmax <axis: int = -1> (scores{n})",
        f"y{n} = MatMul (shares{n}, v{n})",
        f"together{n} = Transpose <perm: ints = [0, 2, 1, 3]> (y{n})",
        f"flat{n} = Reshape (together{n}, joined)",
        *_weight_lines(f"out_w{n}", WIDTH, WIDTH),
        f"out{n} = MatMul (flat{n}, out_w{n})",
        f"mid{n} = Add (x{n}, out{n})",
        f"b{n} = LayerNormalization (mid{n}, scale, shift)",
        *_weight_lines(f"up_w{n}", WIDTH, 4 * WIDTH),
        f"up{n} = MatMul (b{n}, up_w{n})",
        f"act{n} = Gelu (up{n})",
        *_weight_lines(f"down_w{n}", 4 * WIDTH, WIDTH),
        f"down{n} = MatMul (act{n}, down_w{n})",
        f"x{n + 1} = Add (mid{n}, down{n})",
    ]


def _weight_lines(name: str, *shape: int, total: float | None = None) -> list[str]:
    """A weight of one number, about 0.02, or so that those of an output sum to `total`."""
    value = 0.02 + zlib.crc32(name.encode()) / 2**32 / 100
    if total is not None:
        value *= total / 0.025 / prod(shape[1:])
    return [
        *_shape_lines(f"{name}_shape", *shape),
        f"{name} = ConstantOfShape <value = float[1] {{{value:.8f}}}> ({name}_shape)",
    ]


def _shape_lines(name: str, *sizes: int) -> list[str]:
    listed = ", ".join(map(str, sizes))
    return [f"{name} = Constant <value = int64[{len(sizes)}] {{{listed}}}> ()"]


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    for name, model in (
        ("sgemm", sgemm()),
        ("vit_s16_pair", vit_s16_pair()),
        ("cnn_pair", cnn_pair()),
        ("late", late_interaction()),
    ):
        onnx.checker.check_model(model, full_check=True)
        Path(folder, f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
