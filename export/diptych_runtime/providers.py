"""What the graphs run on: the CPU, CUDA or TensorRT. The latter two count only where they really run.

ONNX Runtime lists CUDA where there is none, and gives a session on the CPU instead of an error (see `took`).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from diptych_runtime.errors import ArtifactError

Provider = Literal["auto", "cpu", "cuda", "tensorrt"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"
GPU = {"auto": CUDA, "cuda": CUDA, "tensorrt": TENSORRT}
MEMORY = "DIPTYCH_GPU_MEMORY"  # MiB that CUDA may take, all there is by default
_WINDOWS = os.name == "nt"
_DRIVER = "nvcuda.dll" if _WINDOWS else "libcuda.so.1"
_TENSORRT_LIBRARY = "nvinfer_10.dll" if _WINDOWS else "libnvinfer.so.10"


def obstacle(name: str, ort: ModuleType) -> str | None:
    """Why a GPU's provider cannot be had, as far as can be told before a session is opened; None if it may work."""
    if GPU[name] not in ort.get_available_providers():
        what = "TensorRT" if GPU[name] == TENSORRT else "CUDA"
        return (
            f"the installed onnxruntime has no {what} (`pip uninstall onnxruntime`, then `pip install 'diptych[gpu]'`)"
        )
    if not _loads(_DRIVER):
        return "there is no NVIDIA driver here"
    if hasattr(ort, "preload_dlls"):
        ort.preload_dlls()
    if GPU[name] == TENSORRT and not _loads(_TENSORRT_LIBRARY):
        return f"{_TENSORRT_LIBRARY} is not here (`pip install tensorrt-cu13`, or the provider cuda)"
    return None


def gpu_providers(name: str, precision: str) -> list[Any]:
    """What ONNX Runtime is asked for, best first. Raises ArtifactError for a memory limit that is no number."""
    cuda = {
        "cudnn_conv_algo_search": "HEURISTIC",  # the default tunes again for every new shape
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": "0",
    }
    if limit := os.environ.get(MEMORY):
        if not limit.isdecimal() or not int(limit):
            raise ArtifactError(f"{MEMORY} must be a whole number of MiB, got {limit!r}")
        cuda["gpu_mem_limit"] = str(int(limit) * 2**20)
    providers: list[Any] = [(CUDA, cuda), CPU]
    if GPU[name] == TENSORRT:
        # Batches have one size, so there is one engine a graph, which takes minutes to build and is kept.
        kept = Path.home() / ".cache" / "diptych" / "tensorrt"
        tensorrt = {
            "trt_fp16_enable": str(precision == "float16"),
            "trt_engine_cache_enable": "True",
            "trt_engine_cache_path": str(kept),
            "trt_timing_cache_enable": "True",
        }
        providers.insert(0, (TENSORRT, tensorrt))
    return providers


def took(name: str, session: Any) -> bool:
    """Whether a session runs on what was asked for, and not on the CPU instead."""
    return session.get_providers()[0] == GPU[name]


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
