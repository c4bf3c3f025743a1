"""The kernel of our own nodes: C++ for ONNX Runtime on the CPU, used where it is built and passes its test.

What the attention computes stands in `diptych_export.custom_op`; without the kernel its body of standard operators
runs. The other nodes are those of the pair graph in 8 bits (`diptych_export.byte_pair`), which is opened with the
kernel alone.
"""

from __future__ import annotations

import os
from functools import cache

from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel.build import KernelError, library_path, source_digest
from diptych_runtime.kernel.library import Library

DOMAIN, NAME = "diptych", "RelPosAttentionV2"
BYTE_PRODUCT, DEPTHWISE, CORRESPONDENCE = "ByteProductV1", "DepthwiseFilterV1", "CorrespondenceV1"
NODES = (NAME, BYTE_PRODUCT, DEPTHWISE, CORRESPONDENCE)
MODES = ("auto", "off", "require")
VARIABLE = "DIPTYCH_KERNEL"

__all__ = [
    "BYTE_PRODUCT",
    "CORRESPONDENCE",
    "DEPTHWISE",
    "DOMAIN",
    "MODES",
    "NAME",
    "NODES",
    "VARIABLE",
    "KernelError",
    "Library",
    "kernel_mode",
    "load_kernel",
]


def kernel_mode(asked: str | None = None) -> str:
    """The mode of the kernel: as asked, else as the variable DIPTYCH_KERNEL says, else "auto".

    "auto" uses it where it can be had, "off" does not, "require" makes its absence an error. Raises ArtifactError for
    any other.
    """
    mode = asked or os.environ.get(VARIABLE, "") or "auto"
    if mode not in MODES:
        raise ArtifactError(f"the kernel must be one of {', '.join(MODES)}, got {mode!r} (argument or {VARIABLE})")
    return mode


@cache
def load_kernel() -> Library:
    """The library, loaded and tested once a process. Raises KernelError with the reason why it cannot be used."""
    path = library_path()
    if not path.is_file():
        raise KernelError("it was not built; `python -m diptych_runtime.kernel` builds it with a C++ compiler")
    library = Library(path)
    if library.source_digest != source_digest():
        raise KernelError("it was built from other sources; build it again with `python -m diptych_runtime.kernel`")
    library.self_test()
    return library
