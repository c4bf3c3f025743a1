"""The small artifacts of the tests, the kernel and the drawn pictures of a demonstration, each made once a machine."""

import shutil
from pathlib import Path
from typing import Any

from cached import cached

_EXPORTED: dict[str, Any] = {
    "sources": (__file__, "model", "export"),
    "packages": ("numpy", "onnx", "onnxruntime", "onnxscript", "torch"),
}
_DRAWN: dict[str, Any] = {"sources": ("service/diptych/bench/demo",), "packages": ("numpy", "pillow")}


def copy_of_tiny(target: Path) -> Path:
    """An artifact of one question, *match*."""
    return cached("tiny", target, _export_tiny, **_EXPORTED)


def copy_of_two(target: Path) -> Path:
    """An artifact that answers *copy* and *thing*."""
    return cached("two", target, _export_two, **_EXPORTED)


def copy_of_kernel(target: Path) -> Path:
    """The kernel, compiled: its file."""
    return cached("kernel", target, _build_kernel, sources=("export/diptych_runtime/kernel",)) / "kernel.so"


def copy_of_literal(target: Path) -> Path:
    """An artifact of the literal form, t = [x, z] in pixels: its pair graph is the whole network."""
    return cached("literal", target, _export_literal, **_EXPORTED)


def drawn_collection(target: Path, count: int) -> list[Path]:
    """What `draw_collection` draws, from the cache: the paths of its photos."""
    from diptych.bench.demo.collection import draw_collection

    cached(f"drawn-{count}", target, lambda folder: draw_collection(folder, count=count), **_DRAWN)
    return sorted((target / "photos").iterdir())


def make_tiny_network(*, seed: int = 20, blocks: int = 2, **changes: Any):
    """A pair network with random weights everywhere (biases and normalisation too), panels of 32 pixels."""
    import torch

    from diptych_model import Msac, PairConfig, PairNetwork, Residual, Scale

    scales = (Scale(1, 1, heads=2, d_a=4, d_o=4), Scale(3, 3, heads=2, d_a=4, d_o=4, separable=True))
    encoder = Residual((8, 12), (1, 1))
    sizes: dict[str, Any] = {"pixels": 32, "width": 12, "embedding": 10, "blocks": blocks}
    config = PairConfig(encoder=encoder, mixer=Msac(scales), **sizes, **changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
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


def _build_kernel(folder: Path) -> None:
    """That of the installation, compiled when it was set up, where it is of these sources."""
    from diptych_runtime.kernel.build import KernelError, build_library, library_path, source_digest
    from diptych_runtime.kernel.library import Library

    folder.mkdir()
    built = library_path()
    try:
        known = Library(built).source_digest == source_digest()
    except KernelError:  # there is none, or it was built by another version
        known = False
    if known:
        shutil.copyfile(built, folder / "kernel.so")
    else:
        build_library(folder / "kernel.so")


def make_literal_network():
    """`make_tiny_network` in the literal form: segments concatenated to the pixels, bias over the columns of t."""
    # With this seed a picture is more like itself than like another, without which no service says that it is ready.
    # One block, for its graphs hold the trunk twice, and the time of an export goes by their nodes.
    return make_tiny_network(seed=24, blocks=1, seam="pixels", segment="concatenated", bias="concatenated")


def _export_tiny(directory: Path) -> None:
    from diptych_export.artifact import export_artifact
    from diptych_runtime.manifest import Question

    export_artifact(
        make_tiny_network(),
        directory,
        questions={"match": Question(1.5, -0.25, {"0.01": 0.9, "0.001": 0.97, "0.0001": 0.99})},
        metadata={"metrics": {"note": "random weights"}},
        pairs=400,
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
        check=False,  # the one of one question is compared with torch, which takes longer than to export it
    )


def _export_literal(directory: Path) -> None:
    from diptych_export.artifact import export_artifact

    export_artifact(make_literal_network(), directory, pairs=400)
