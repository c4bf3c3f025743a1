"""ONNX Runtime's sessions: the CPU or CUDA that they run on, and the threads that they may use.

CUDA counts only where it really runs: ONNX Runtime lists it where there is none, gives a session on the CPU instead of
an error, and one on CUDA that fails at the first convolution where cuDNN is missing (see `check_gpu`).
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from diptych_runtime.errors import ArtifactError

if TYPE_CHECKING:
    from diptych_runtime.kernel import Library

logger = logging.getLogger(__name__)

Provider = Literal["auto", "cpu", "cuda"]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
MEMORY = "DIPTYCH_GPU_MEMORY"  # MiB that CUDA may take for each graph, all there is by default
_OUT_OF_LIMIT = re.compile(r"Available memory of (\d+) is smaller than requested bytes of (\d+)")
_PREAMBLE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Non-zero status code .*?Status Message: )?")
_CUDA_FAILURE = re.compile(r"\w+ failure \d+: [^;]*[^;\s]")
# What lets a graph name other files: the key of a tensor's place, and a node. Either's length has several spellings.
_OTHER_FILES = re.compile(rb"(?:\x08|\x88\x80*\x00)location|(?:\x09|\x89\x80*\x00)EPContext")
_DRIVER = "libcuda.so.1"


def open_session(
    graph: bytes, providers: Sequence[Any] = (CPU,), *, threads: int = 1, library: Library | None = None
) -> Any:
    """An ONNX Runtime session of a graph; the library is registered where the graph has a node for it.

    Of a model there is one thread a chunk and as many chunks at a time as there are workers: as fast for one request as
    all threads on each operator, and faster for several. Raises ArtifactError, for a graph that names other files too.
    """
    from diptych_runtime.kernel import NODES

    ort = import_onnxruntime()
    if _OTHER_FILES.search(graph):
        raise ArtifactError(
            "the artifact's graph names other files, which its digests do not cover; expected all weights in the graph "
            "itself: export it again"
        )
    options = ort.SessionOptions()
    options.add_session_config_entry("session.load_model_format", "ONNX")  # other formats may name files, too
    if library is not None and any(name.encode() in graph for name in NODES):
        options.register_custom_ops_library(str(library.path))
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # every error is raised, too
    try:
        # With its fallback ONNX Runtime would print, and go on with another provider than `Runtime.provider`.
        return ort.InferenceSession(graph, options, providers=list(providers), enable_fallback=0)
    except Exception as error:  # ONNX Runtime's exceptions have no common base but this
        reason = _error_text(error)
        raise ArtifactError(f"ONNX Runtime {ort.__version__} cannot open the artifact's graph: {reason}") from None


def run_session(session: Any, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a session's graph. Raises ArtifactError with the reason, in one line."""
    try:
        return session.run(None, dict(feeds))
    except MemoryError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no common base but this
        on_cpu = session.get_providers()[0] == CPU
        advice = "allow more memory, or export the model again" if on_cpu else "mend that or use the provider cpu"
        raise ArtifactError(f"{_failure_text(session, error)}; {advice}") from None


def import_onnxruntime() -> ModuleType:
    """The installed ONNX Runtime, without its telemetry. Raises ArtifactError with the line that installs it, or with
    what keeps it from being imported.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise ArtifactError(
            "ONNX Runtime is not installed; install it with `pip install 'diptych[cpu]'`, "
            "or `pip install 'diptych[gpu]'` for an NVIDIA GPU (one of them, never both)"
        ) from None
    except ImportError as error:  # a library that it needs is missing, or its import was interrupted
        raise ArtifactError(f"ONNX Runtime cannot be imported: {error}; try again, or install it again") from None
    onnxruntime.disable_telemetry_events()  # a caller may have imported it before `diptych_runtime` could forbid it
    return onnxruntime


def why_unavailable(ort: ModuleType) -> str | None:
    """The reason why CUDA is unavailable, as far as it shows before a session is opened; None if it may work."""
    if not _is_loadable(_DRIVER):  # without which another ONNX Runtime would be of no use
        return "there is no NVIDIA driver here"
    if CUDA not in ort.get_available_providers():
        return "the installed onnxruntime has no CUDA (`pip uninstall onnxruntime`, then `pip install 'diptych[gpu]'`)"
    load_libraries(ort)
    return None


def load_libraries(ort: ModuleType) -> str:
    """Load CUDA and cuDNN from the packages that came with ONNX Runtime; returns the first complaint, "" for none."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:  # where ONNX Runtime complains
        if hasattr(ort, "preload_dlls"):
            ort.preload_dlls()
    complaints = printed.getvalue().splitlines()
    for line in complaints:
        logger.debug("%s", line)
    return complaints[0] if complaints else ""


def gpu_providers() -> list[Any]:
    """The providers asked of ONNX Runtime, best first. Raises ArtifactError for a memory limit that is no number."""
    options = {
        "cudnn_conv_algo_search": "HEURISTIC",  # the default tunes again for every new shape
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": "0",
    }
    if limit := os.environ.get(MEMORY):
        if not limit.isdecimal() or not 0 < int(limit[:20]) < 2**30:
            raise ArtifactError(f"{MEMORY} must be a whole number of MiB from 1 to {2**30 - 1:,}, got {limit[:80]!r}")
        options["gpu_mem_limit"] = str(int(limit) * 2**20)
    return [(CUDA, options), CPU]


def check_gpu(panel: Any, pair: Any, batch: int) -> None:
    """Compute the panel graph of a batch of blank pictures on the GPU, which warms it up too.

    Raises ArtifactError with the reason if that fails, or if one of the two sessions runs on the CPU instead.
    """
    if not all(session.get_providers()[0] == CUDA for session in (panel, pair)):
        reason = load_libraries(import_onnxruntime()) or "its log says why"
        raise ArtifactError(f"ONNX Runtime could not start it ({reason}; it needs CUDA 13 and cuDNN 9)")
    try:
        panel.run(None, {"pixels": np.zeros((batch, *panel.get_inputs()[0].shape[1:]), np.uint8)})
    except Exception as error:
        raise ArtifactError(_failure_text(panel, error)) from None


def thread_count() -> int:
    """The number of threads worth starting here, at least 1: allowed cores, capped by the cgroup's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def cgroup_quota(root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """The cores this process's control groups grant it (version 1 or 2), the tightest of all levels; None: no limit."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / controllers if controllers else root
        if controllers and not base.is_dir():
            base = root / "cpu"
        # Inside a container the path may name a place outside of its own view; its root then holds the limit.
        levels = [base / path.strip("/"), *(base / path.strip("/")).parents]
        quotas += [
            quota for level in levels if level.is_relative_to(base) and (quota := _read_quota(level)) is not None
        ]
    return min(quotas, default=None)


def _failure_text(session: Any, error: Exception) -> str:
    return (
        f"ONNX Runtime {import_onnxruntime().__version__} failed on {session.get_providers()[0]}: {_error_text(error)}"
    )


def _error_text(error: Exception) -> str:
    """An error of ONNX Runtime in one line, with the remedy if a limit of memory is the reason."""
    text = " ".join(str(error).split())
    logger.debug("%s", text)
    limit = os.environ.get(MEMORY)
    if limit and (short := _OUT_OF_LIMIT.search(text)):
        left, needed = (int(size) / 2**20 for size in short.groups())
        return (
            f"{needed:.1f} MiB of the GPU's memory were needed and {left:.1f} MiB left of {MEMORY}={limit} "
            "(raise it, 1000 is enough for photo, or unset it)"
        )
    if failure := _CUDA_FAILURE.search(text):
        return failure.group()
    return _PREAMBLE.sub("", text)


def _is_loadable(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _read_quota(group: Path) -> float | None:
    try:
        if (group / "cpu.max").exists():
            limit, period = (group / "cpu.max").read_text().split()
            return None if limit == "max" else int(limit) / int(period)
        limit = int((group / "cpu.cfs_quota_us").read_text())
        return None if limit < 0 else limit / int((group / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return None
