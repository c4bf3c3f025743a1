"""The definitions that the kernel's nodes are held to, in float64, and how weights become bytes."""

from __future__ import annotations

import numpy as np

BLOCK = 16  # columns of a product that lie together


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
