"""The built kernel as Python sees it: what it runs on, and its attention as a plain function."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from diptych_runtime.kernel.build import KernelError, is_whole
from diptych_runtime.kernel.byte_nodes import ByteNodes

_FLOATS = ctypes.POINTER(ctypes.c_float)
_TOLERANCE = 1e-5
_FUNCTIONS = ("diptych_instructions", "diptych_byte_instructions", "diptych_source_digest", "diptych_attend")


class Library:
    """The kernel's library, opened: `instructions` is the set that it uses here ("avx512", "avx2" or "generic"), and
    `byte_instructions` that of the pair graph in 8 bits, empty where the processor has none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if not is_whole(path.read_bytes()):  # the loader does not look, and a damaged one ends the process
                raise OSError("damaged, or built by another version")
            self._library = ctypes.CDLL(str(path))
            for name in _FUNCTIONS:
                getattr(self._library, name).restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            raise KernelError(
                f"{path.name} cannot be loaded ({error}); build it again with `python -m diptych_runtime.kernel`"
            ) from None
        self.instructions: str = self._library.diptych_instructions().decode()
        self.byte_instructions: str = self._library.diptych_byte_instructions().decode()
        self.bytes = ByteNodes(self._library)
        self.source_digest: str = self._library.diptych_source_digest().decode()

    def attend(
        self,
        projected: np.ndarray,
        table: np.ndarray,
        *,
        heads: int,
        panels: int,
        key_width: int,
        joined: bool = False,
        instructions: str | None = None,
    ) -> np.ndarray:
        """The attention that `diptych_export.custom_op` defines, on one thread: float32 (B, T, C (2 d_a + d_o)) -> (B,
        T, C d_o).

        `instructions` names a set in the place of the best. Raises ValueError for shapes that do not fit, and for
        instructions that this processor does not have.
        """
        projected, table = (np.ascontiguousarray(array, np.float32) for array in (projected, table))
        if projected.ndim != 3 or table.ndim != 4:
            raise ValueError(
                f"expected projected (B, T, C (2 d_a + d_o)) and a table (kinds, C, N, M), got {projected.shape} and "
                f"{table.shape}"
            )
        batch, positions, width = projected.shape
        attended = np.empty((batch, positions, max(0, width - 2 * heads * key_width)), np.float32)
        sizes = (ctypes.c_int64(size) for size in (heads, panels, key_width, int(joined)))
        fault = self._library.diptych_attend(
            instructions.encode() if instructions else None,
            projected.ctypes.data_as(_FLOATS),
            *(ctypes.c_int64(size) for size in (batch, positions, width)),
            table.ctypes.data_as(_FLOATS),
            (ctypes.c_int64 * 4)(*table.shape),
            *sizes,
            attended.ctypes.data_as(_FLOATS),
        )
        if fault:
            raise ValueError(fault.decode())
        return attended

    def self_test(self) -> None:
        """Compare with the definition on small numbers, odd widths and a grid that fills no vector.

        Raises KernelError where they differ.
        """
        rng = np.random.default_rng(0)
        for panels, rows, cols, heads, key_width, value_width in ((2, 8, 8, 2, 32, 32), (2, 3, 5, 3, 7, 9)):
            shape = (2, panels * rows * cols, heads * (2 * key_width + value_width))
            projected = rng.standard_normal(shape, np.float32)
            table = rng.standard_normal((2, heads, rows, cols), np.float32)
            sizes: dict[str, Any] = {"heads": heads, "panels": panels, "key_width": key_width}
            apart = np.abs(
                self.attend(projected, table, **sizes) - reference_attention(projected, table, **sizes)
            ).max()
            if not apart <= _TOLERANCE:
                raise KernelError(
                    f"it failed its self-test on this processor ({self.instructions}): wrong by {apart:.2g}, at most "
                    f"{_TOLERANCE:g} is allowed; please report it, and set DIPTYCH_KERNEL=off meanwhile"
                )
        if self.byte_instructions:
            self.bytes.self_test()


def reference_attention(
    projected: np.ndarray, table: np.ndarray, *, heads: int, panels: int, key_width: int, joined: bool = False
) -> np.ndarray:
    """The attention by its definition, in float64, which kernel and body are compared with."""
    batch, positions, width = projected.shape
    kinds, _, rows, reach = table.shape
    cols = reach // panels if joined else reach
    place = np.arange(positions)
    panel, row, col = place // (rows * cols), place // cols % rows, place % cols
    col = col + joined * cols * panel
    kind = (panel[:, None] != panel) * (kinds - 1)
    bias = table.astype(np.float64)[kind, :, abs(row[:, None] - row), abs(col[:, None] - col)].transpose(2, 0, 1)
    parts = np.split(projected.astype(np.float64), [heads * key_width, 2 * heads * key_width], axis=-1)
    q, k, v = (part.reshape(batch, positions, heads, -1) for part in parts)
    scores = np.einsum("bicd,brcd->bcir", q, k) / np.sqrt(key_width) + bias
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.einsum("bcir,brcd->bicd", shares, v).reshape(batch, positions, width - 2 * heads * key_width)
