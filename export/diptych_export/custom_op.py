"""The one node of our own, `diptych::RelPosAttentionV2`, and its body of standard operators.

    y_i = sum_r softmax_r(q_i . k_r / sqrt(d_a) + b[kind, |row_i - row_r|, |col_i - col_r|]) v_r

(Eq. 2-4 of the MSAC paper) over the positions of all panels, which lie one after another, each row by row. `projected`
(B, T, C (2 d_a + d_o)) holds the queries of all heads, then all keys, then all values; `table` (kinds, C, N, M) the
bias, of one kind, or of two: within a panel and across panels. Where `joined` is 1 columns are counted on over the
seam, and the table has those of all panels. The result is (B, T, C d_o).

ONNX Runtime runs a registered kernel of this name in the body's place whatever it computes, so the name has its
version in it: another computation is another name.
"""

from __future__ import annotations

import onnx
import onnx.parser

from diptych_runtime.kernel import DOMAIN, NAME

OPSETS = (18, 19, 20, 21, 22, 23)

# Rows and columns are read off the table, which is a constant: so ONNX Runtime folds the whole bias when it loads.
_BODY = """
<opset_import: ["" : %(opset)d], domain: "%(domain)s">
%(name)s <heads, panels, key_width, joined> (projected, table) => (attended)
{
    head_count = Constant <value_int: int = @heads> ()
    panel_count = Constant <value_int: int = @panels> ()
    width = Constant <value_int: int = @key_width> ()
    is_joined = Constant <value_int: int = @joined> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    two = Constant <value = int64 {2}> ()
    three = Constant <value = int64 {3}> ()
    first_axis = Constant <value = int64[1] {0}> ()
    second_axis = Constant <value = int64[1] {1}> ()
    last_axis = Constant <value = int64[1] {2}> ()

    sizes = Shape (table)
    kinds = Gather (sizes, zero)
    rows = Gather (sizes, two)
    reach = Gather (sizes, three)
    other_panels = Sub (panel_count, one)
    more = Mul (is_joined, other_panels)
    share = Add (one, more)
    cols = Div (reach, share)
    area = Mul (rows, cols)
    positions = Mul (panel_count, area)

    position = Range (zero, positions, one)
    panel = Div (position, area)
    rows_before = Div (position, cols)
    row = Mod (rows_before, rows)
    panel_col = Mod (position, cols)
    cols_before = Mul (panel, cols)
    offset = Mul (cols_before, is_joined)
    col = Add (panel_col, offset)
    query_panel = Unsqueeze (panel, second_axis)
    key_panel = Unsqueeze (panel, first_axis)
    same_panel = Equal (query_panel, key_panel)
    other_panel = Not (same_panel)
    across = Cast <to: int = 7> (other_panel)
    last_kind = Sub (kinds, one)
    kind = Mul (across, last_kind)
    query_row = Unsqueeze (row, second_axis)
    key_row = Unsqueeze (row, first_axis)
    row_difference = Sub (query_row, key_row)
    row_distance = Abs (row_difference)
    query_col = Unsqueeze (col, second_axis)
    key_col = Unsqueeze (col, first_axis)
    col_difference = Sub (query_col, key_col)
    col_distance = Abs (col_difference)
    of_kind = Mul (kind, rows)
    line = Add (of_kind, row_distance)
    of_line = Mul (line, reach)
    place = Add (of_line, col_distance)
    by_head = Transpose <perm: ints = [1, 0, 2, 3]> (table)
    flat_shape = Constant <value = int64[2] {0, -1}> ()
    flat = Reshape (by_head, flat_shape)
    dense = Gather <axis: int = 1> (flat, place)
    bias = Unsqueeze (dense, first_axis)

    keys_at_scalar = Mul (head_count, width)
    keys_at = Unsqueeze (keys_at_scalar, first_axis)
    values_at = Add (keys_at, keys_at)
    end = Constant <value = int64[1] {9223372036854775807}> ()
    q = Slice (projected, first_axis, keys_at, last_axis)
    k = Slice (projected, keys_at, values_at, last_axis)
    v = Slice (projected, values_at, end, last_axis)
    heads_1d = Unsqueeze (head_count, first_axis)
    copied = Constant <value = int64[2] {0, 0}> ()
    rest = Constant <value = int64[1] {-1}> ()
    split_shape = Concat <axis: int = 0> (copied, heads_1d, rest)
    q_heads = Reshape (q, split_shape)
    k_heads = Reshape (k, split_shape)
    v_heads = Reshape (v, split_shape)
    queries = Transpose <perm: ints = [0, 2, 1, 3]> (q_heads)
    keys = Transpose <perm: ints = [0, 2, 1, 3]> (k_heads)
    values = Transpose <perm: ints = [0, 2, 1, 3]> (v_heads)
%(attention)s
    y_tokens = Transpose <perm: ints = [0, 2, 1, 3]> (y)
    joined_shape = Concat <axis: int = 0> (copied, rest)
    attended = Reshape (y_tokens, joined_shape)
}
"""
_ATTENTION = "    y = Attention (queries, keys, values, bias)"
_WRITTEN_OUT = """
    float_width = CastLike (width, projected)
    root = Sqrt (float_width)
    scaled = Div (queries, root)
    turned = Transpose <perm: ints = [0, 1, 3, 2]> (keys)
    products = MatMul (scaled, turned)
    scores = Add (products, bias)
    coefficients = Softmax <axis: int = -1> (scores)
    y = MatMul (coefficients, values)
"""


def function_body(opset: int) -> onnx.FunctionProto:
    """The node as a function of standard operators, those of one of `OPSETS`.

    It uses the operator Attention where there is one.
    """
    attention = _ATTENTION if opset >= 23 else _WRITTEN_OUT
    return onnx.parser.parse_function(_BODY % {"opset": opset, "domain": DOMAIN, "name": NAME, "attention": attention})
