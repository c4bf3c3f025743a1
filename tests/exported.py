"""The small artifacts of the tests, exported once a machine: kept below `.cache` for what they were made of."""

import hashlib
import platform
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".cache/tests"
SUFFIXES = {".py", ".cc", ".h"}
PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxscript", "openvino", "torch")


def exported(name: str) -> Path:
    """The artifact `tiny` or `two`, for whose sources and packages it is exported only once; nobody may change it.

    Of several processes one exports, and the others wait for it. Where that fails, nothing is kept.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    folder = KEPT / f"{name}-{digest()}"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=KEPT, prefix=f"{name}-") as fresh:
                EXPORTS[name](Path(fresh, name))
                Path(fresh, name).replace(folder)
    return folder


def make_tiny_network(**changes: Any):
    """A pair network with random weights everywhere (biases and normalisation too), panels of 32 pixels."""
    import torch

    from diptych_model import Msac, PairConfig, PairNetwork, Residual, Scale

    scales = (Scale(1, 1, heads=2, d_a=4, d_o=4), Scale(3, 3, heads=2, d_a=4, d_o=4, separable=True))
    encoder = Residual((8, 12), (1, 1))
    config = PairConfig(pixels=32, encoder=encoder, width=12, embedding=10, blocks=2, mixer=Msac(scales), **changes)
    with torch.random.fork_rng():
        torch.manual_seed(20)
        network = PairNetwork(config).eval()
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                # What starts at zero or one would hide a mistake in the graphs.
                if parameter.dim() == 1 or name.endswith("table"):
                    parameter.add_(torch.randn_like(parameter) * 0.3)
            for name, buffer in network.named_buffers():
                if name.endswith("running_mean"):
                    buffer.normal_(0, 0.1)
    return network


def _export_tiny(directory: Path) -> None:
    from diptych_export.artifact import export_artifact
    from diptych_runtime.manifest import Question

    export_artifact(
        make_tiny_network(),
        directory,
        questions={"match": Question(1.5, -0.25, {"0.01": 0.9, "0.001": 0.97, "0.0001": 0.99})},
        training={"note": "random weights"},
    )


def _export_two(directory: Path) -> None:
    from diptych_export.artifact import export_artifact
    from diptych_runtime.manifest import Question

    export_artifact(
        make_tiny_network(questions=("copy", "thing"), parts=2),
        directory,
        questions={
            "thing": Question(0.75, 0.5, {"0.01": 0.8, "0.001": 0.85}),
            "copy": Question(2.0, -1.25, {"0.01": 0.6, "0.001": 0.7}),
        },
        pairs=400,
    )


EXPORTS = {"tiny": _export_tiny, "two": _export_two}


@cache
def digest() -> str:
    """The digest of this file, the code of model and export, and the versions of what it runs on."""
    files = [Path(__file__), *(path for top in ("model", "export") for path in (ROOT / top).rglob("*"))]
    found = hashlib.sha256(f"{platform.python_version()} {platform.machine()}".encode())
    for path in sorted(path for path in files if path.suffix in SUFFIXES):
        data = path.read_bytes()
        found.update(f"\n{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    for package in PACKAGES:
        found.update(f"\n{package} {_version(package)}".encode())
    return found.hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
