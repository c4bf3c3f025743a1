"""The nodes of the pair graph in 8 bits as plain functions, and the definitions that they are held to."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from diptych_runtime.kernel.build import KernelError

BLOCK = 16  # columns of a product that lie together; all widths are multiples of it
EVIDENCE = 6  # of a token of a correspondence
_TOLERANCE = 1e-4
_erf = np.vectorize(math.erf)


def packed_weights(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights float32 (K, N) as whole numbers from -127 to 127: int8 (N / 16, K / 4, 16, 4) as the processor takes
    them, and float32 (2, N): what a column's numbers are multiplied by, and that times their sum.
    """
    depth, width = weights.shape
    if depth % BLOCK or width % BLOCK:
        raise ValueError(f"the widths must be multiples of {BLOCK}, got {weights.shape}")
    scales = np.maximum(np.abs(weights).max(0) / 127, np.finfo(np.float32).tiny)
    whole = np.rint(weights / scales).astype(np.int8)
    packed = whole.reshape(depth // 4, 4, width // BLOCK, BLOCK).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(packed), np.stack([scales, scales * whole.sum(0, dtype=np.int64)]).astype(np.float32)


class ByteNodes:
    """The nodes by an opened library, each for arrays float32; `norm` is a layer norm's scale and shift (2, K)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def multiply(
        self,
        x: np.ndarray,
        weights: np.ndarray,
        *,
        norm: np.ndarray | None = None,
        bias: np.ndarray | None = None,
        residual: np.ndarray | None = None,
        gelu: bool = False,
    ) -> np.ndarray:
        """`act(norm(x) W + bias) + residual` of x (M, K) and weights (K, N), both in 8 bits: (M, N)."""
        packed, scales = packed_weights(weights)
        y = np.empty((len(x), weights.shape[1]), np.float32)
        sizes = (len(x), *weights.shape, int(gelu))
        self._call_node("diptych_multiply_bytes", x, norm, packed, scales, bias, residual, y, *sizes)
        return y

    def filter(self, x: np.ndarray, filter: np.ndarray, *, norm: np.ndarray | None = None) -> np.ndarray:
        """A depthwise filter (n, m, c) over grids (B, N, M, c), channels last."""
        y = np.empty_like(x)
        self._call_node("diptych_filter", x, norm, filter, y, *x.shape, *filter.shape[:2])
        return y

    def correspond(
        self, a: np.ndarray, b: np.ndarray, place: np.ndarray, *, sharpness: float, width: int, merge: int
    ) -> list[np.ndarray]:
        """The correspondence of a pair's tokens (N, M, d) with places (N M, 2): merged, best and mean of a and of b."""
        rows, cols, depth = a.shape
        joined = (rows // merge, cols // merge, merge * merge * (width + EVIDENCE))
        shapes = [joined, joined, (rows * cols,), (rows * cols,), (width,), (width,)]
        made = [np.empty(shape, np.float32) for shape in shapes]
        turned = np.ascontiguousarray(place.T)
        sizes = (rows, cols, depth, width, merge)
        self._call_node("diptych_correspond", a, b, turned, ctypes.c_float(sharpness), *sizes, *made)
        return made

    def self_test(self) -> None:
        """Compare with the definitions on small numbers. Raises KernelError where they differ."""
        rng = np.random.default_rng(0)
        x, weights = rng.standard_normal((5, 32), np.float32), rng.standard_normal((32, 112), np.float32)
        bias, residual = rng.standard_normal(112, np.float32), rng.standard_normal((5, 112), np.float32)
        grid, taps = rng.standard_normal((2, 3, 5, 32), np.float32), rng.standard_normal((3, 3, 32), np.float32)
        a, b = rng.standard_normal((2, 4, 4, 12), np.float32)
        place = rng.standard_normal((16, 2), np.float32)
        sizes: dict[str, Any] = {"sharpness": 10.0, "width": 10, "merge": 2}
        pairs = [
            (self.multiply(x, weights, bias=bias, residual=residual), reference_product(x, weights, bias) + residual),
            (self.multiply(x, weights, bias=bias, gelu=True), gelu(reference_product(x, weights, bias))),
            (self.filter(grid, taps), reference_filter(grid, taps)),
            *zip(self.correspond(a, b, place, **sizes), reference_correspondence(a, b, place, **sizes), strict=True),
        ]
        apart = max(float(np.abs(mine - known).max()) for mine, known in pairs)
        if not apart <= _TOLERANCE:
            raise KernelError(
                f"its nodes in 8 bits failed their self-test on this processor: wrong by {apart:.2g}, at most "
                f"{_TOLERANCE:g} is allowed; please report it, and set DIPTYCH_KERNEL=off meanwhile"
            )

    def _call_node(self, name: str, *arguments: Any) -> None:
        def as_argument(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return ctypes.c_void_p(np.ascontiguousarray(value).ctypes.data)
            return ctypes.c_int64(value) if isinstance(value, int) else value

        # Contiguous copies must live until the call is over.
        held = [np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value for value in arguments]
        getattr(self._library, name)(*map(as_argument, held))


def reference_product(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """x W + bias in float64 of x's rows as 256 and W's columns as 255 whole numbers."""
    least = x.min(1, keepdims=True)
    step = (x.max(1, keepdims=True) - least) / np.float32(255)
    x_bytes = np.rint((x - least) * (1 / step)).astype(np.float64)
    scales = np.abs(weights).max(0) / 127
    return (least + step * x_bytes) @ (scales * np.rint(weights / scales).astype(np.float64)) + bias


def gelu(x: np.ndarray) -> np.ndarray:
    """The GELU, exact."""
    return x * (1 + _erf(x / math.sqrt(2))) / 2


def reference_filter(x: np.ndarray, filter: np.ndarray) -> np.ndarray:
    """A depthwise filter in float64, 0 outside of the grid."""
    height, breadth, _ = filter.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (height // 2,) * 2, (breadth // 2,) * 2, (0, 0)))
    rows, cols = x.shape[1:3]
    taps = ((i, j) for i in range(height) for j in range(breadth))
    return sum((padded[:, i : i + rows, j : j + cols] * filter[i, j] for i, j in taps), np.zeros(x.shape))


def reference_correspondence(
    a: np.ndarray, b: np.ndarray, place: np.ndarray, *, sharpness: float, width: int, merge: int
) -> list[np.ndarray]:
    """`diptych_model.correspondence.Correspondence` in float64, by its definition."""
    rows, cols, _ = a.shape
    units = [t[..., :width].reshape(-1, width).astype(np.float64) for t in (a, b)]
    units = [t / np.maximum(np.linalg.norm(t, axis=1, keepdims=True), 1e-12) for t in units]
    s = units[0] @ units[1].T
    shares = [np.exp(sharpness * (each - each.max(1, keepdims=True))) for each in (s, s.T)]
    shares = [each / each.sum(1, keepdims=True) for each in shares]
    found = [each @ place for each in shares]
    best = [s.max(1), s.max(0)]
    merged = []
    for panel in range(2):
        back = shares[panel] @ found[1 - panel] - place
        evidence = [best[panel][:, None], found[panel], back, (back**2).sum(1, keepdims=True)]
        token = np.concatenate([units[panel] * math.sqrt(width), *evidence], 1)
        token = token.reshape(rows // merge, merge, cols // merge, merge, -1).transpose(0, 2, 1, 3, 4)
        merged.append(token.reshape(rows // merge, cols // merge, -1))
    return [*merged, *best, *(unit.mean(0) for unit in units)]
