"""The device that networks are trained on, the precision it computes in, and all else that numbers depend on."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def default_device(place: int = 0) -> torch.device:
    """The CUDA device at a place where there is CUDA, the CPU elsewhere."""
    return torch.device("cuda", place) if torch.cuda.is_available() else torch.device("cpu")


def computes_bfloat16(device: torch.device) -> bool:
    """Return True for a device with instructions for bfloat16: a processor without them (AVX512-BF16, AMX) takes twice
    as long as in float32.
    """
    if device.type == "cpu":
        able = getattr(torch.cpu, "get_capabilities", dict)()  # which older versions of torch do not have
        return bool(able.get("avx512_bf16") or able.get("amx_bf16"))
    return torch.cuda.is_bf16_supported(including_emulation=False)


def mixed_precision(device: torch.device, wanted: bool = True) -> torch.autocast:
    """Return a context of products and convolutions in bfloat16, if that is wanted and `computes_bfloat16`."""
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted and computes_bfloat16(device))


def describe_environment() -> dict[str, str | bool]:
    """Describe the machine and software that the numbers may depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "bfloat16": computes_bfloat16(default_device()),
    }


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """So many threads of torch within the block, and as many as before after it, be it by an error."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
