"""The bytes in which the tokens of a picture are kept: most channels in 8 bits, in steps of each patch's own, and the
rest in float16.

Tokens are rounded when they are made, so that what is kept is what was compared, and a stored picture has the scores of
its file to the bit.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diptych_runtime.errors import ArtifactError

LARGEST = 127  # of a byte's steps, either way
LEAST_EXPONENT = -14  # of a patch's largest number: with finer steps float16 would not hold every multiple
_HEADER = struct.Struct("<2sHHI")  # the mark, channels in 8 bits, channels, patches
_MARK = b"T8"


@dataclass(frozen=True)
class TokenCodec:
    """The way tokens of a `shape` (N, M, d) are kept: the first `byte_channels` of each patch as multiples -127 to 127
    of a step, and the others in float16. With none in 8 bits, all are float16 as they were made.

    The step is 2^(e - 7) for the exponent e of the patch's largest of these numbers, which is f 2^e, 1/2 <= f < 1. As
    float16 holds every such multiple, nothing is lost in keeping what was `round_tokens`, and rounding again changes
    nothing.

    >>> codec = TokenCodec((12, 12, 64), byte_channels=62)
    >>> codec.nbytes, TokenCodec((12, 12, 64)).nbytes
    (9658, 18432)
    """

    shape: tuple[int, int, int]
    byte_channels: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.byte_channels <= self.shape[2]:
            raise ValueError(
                f"the channels in 8 bits must be 0 to {self.shape[2]}, as a token has no more, got {self.byte_channels}"
            )

    @property
    def suffix(self) -> str:
        """ "" for float16, and "-tokens8": scores of tokens that were rounded are others, and kept apart."""
        return "-tokens8" if self.byte_channels else ""

    @property
    def float16_nbytes(self) -> int:
        """The bytes that a picture's tokens take with all in float16."""
        return 2 * math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that a picture's tokens take."""
        rows, columns, width = self.shape
        if not self.byte_channels:
            return self.float16_nbytes
        return _compact_nbytes(self.byte_channels, width, rows * columns)

    def round_tokens(self, tokens: np.ndarray) -> np.ndarray:
        """The tokens float16 (B, N, M, d) rounded as they are compared and kept."""
        if not self.byte_channels:
            return tokens
        steps, exponents = self._quantize_tokens(tokens)
        return np.concatenate([_dequantize_steps(steps, exponents), tokens[..., self.byte_channels :]], -1)

    def pack_tokens(self, tokens: np.ndarray) -> list[bytes]:
        """The bytes (little-endian) in which B pictures' `round_tokens` tokens float16 (B, N, M, d) are kept."""
        count = len(tokens)
        if not self.byte_channels or not count:
            return [one.astype("<f2").tobytes() for one in tokens]
        rows, columns, width = self.shape
        steps, exponents = self._quantize_tokens(tokens)
        exact = tokens[..., self.byte_channels :].astype("<f2").reshape(count, -1).view(np.int8)
        together = np.concatenate([part.reshape(count, -1) for part in (exponents, steps, exact)], 1)
        header = _HEADER.pack(_MARK, self.byte_channels, width, rows * columns)
        return [header + one.tobytes() for one in together]

    def unpack_tokens(self, kept: Sequence[bytes]) -> np.ndarray:
        """The tokens float16 (B, N, M, d) of B pictures, as they were packed.

        Those that an earlier version kept in float16 are rounded. Raises ArtifactError for tokens of another form.
        """
        tokens = np.empty((len(kept), *self.shape), np.float16)
        compact = np.array([self._is_compact(one) for one in kept], bool)
        for which, read in ((compact, _unpack_compact), (~compact, _unpack_plain)):
            if places := np.flatnonzero(which).tolist():
                tokens[places] = read([kept[place] for place in places]).reshape(len(places), *self.shape)
        if not compact.all():
            tokens[~compact] = self.round_tokens(tokens[~compact])
        return tokens

    def _is_compact(self, kept: bytes) -> bool:
        rows, columns, width = self.shape
        header = _read_header(kept)
        if header == (self.byte_channels, width, rows * columns):
            return True
        if header is not None and header[1:] == (width, rows * columns):
            raise ArtifactError(
                f"the stored tokens have {header[0]} of {width} channels in 8 bits, and this artifact keeps "
                f"{self.byte_channels}: take the artifact that made them, export its checkpoint again with this "
                "version of Diptych, or embed the pictures anew with `diptych index rebuild --all`"
            )
        if len(kept) != self.float16_nbytes:
            raise ArtifactError(
                f"stored tokens of {len(kept):,} bytes are none of this model, which keeps {self.nbytes:,}; `diptych "
                "index rebuild` makes them anew"
            )
        return False

    def _quantize_tokens(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bytes int8 (B, N, M, k), and the exponents of their steps int8 (B, N, M, 1)."""
        known = tokens[..., : self.byte_channels].astype(np.float32)
        exponents = np.frexp(np.abs(known).max(-1, keepdims=True))[1]
        exponents = np.maximum(exponents, LEAST_EXPONENT) - 7
        steps = np.clip(np.rint(np.ldexp(known, -exponents)), -LARGEST, LARGEST)
        return steps.astype(np.int8), exponents.astype(np.int8)


def read_numbers(kept: bytes) -> np.ndarray:
    """The float16 numbers of one picture's tokens, however they are kept.

    Raises ValueError where they are cut short.
    """
    return (_unpack_plain if _read_header(kept) is None else _unpack_compact)([kept])[0].ravel()


def _unpack_compact(kept: Sequence[bytes]) -> np.ndarray:
    """Tokens float16 (B, P, d) of pictures with the same header."""
    _, channels, width, patches = _HEADER.unpack(kept[0][: _HEADER.size])
    values = np.frombuffer(b"".join(kept), np.int8).reshape(len(kept), -1)[:, _HEADER.size :]
    exponents, steps, exact = np.split(values, [patches, patches * (1 + channels)], 1)
    tokens = np.empty((len(kept), patches, width), np.float16)
    tokens[..., :channels] = _dequantize_steps(steps.reshape(len(kept), patches, channels), exponents[..., None])
    tokens[..., channels:] = np.ascontiguousarray(exact).view("<f2").reshape(len(kept), patches, -1)
    return tokens


def _unpack_plain(kept: Sequence[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(kept), "<f2").reshape(len(kept), -1)


def _dequantize_steps(steps: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    return (steps * np.ldexp(np.float32(1), exponents.astype(np.int32))).astype(np.float16)


def _compact_nbytes(channels: int, width: int, patches: int) -> int:
    return _HEADER.size + patches * (1 + channels + 2 * (width - channels))


def _read_header(kept: bytes) -> tuple[int, int, int] | None:
    """The channels in 8 bits, channels and patches of tokens with some in 8 bits; None for tokens in float16."""
    if len(kept) < _HEADER.size:
        return None
    mark, channels, width, patches = _HEADER.unpack(kept[: _HEADER.size])
    fitting = 0 < channels <= width and len(kept) == _compact_nbytes(channels, width, patches)
    return (channels, width, patches) if mark == _MARK and fitting else None
