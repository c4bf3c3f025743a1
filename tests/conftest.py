"""What all tests share: a small artifact, and small pictures drawn from a seed."""

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pillow_heif
import pytest
from PIL import Image, ImageDraw

Draw = Callable[..., Image.Image]
DrawBytes = Callable[..., bytes]

pillow_heif.register_heif_opener()  # so that Pillow can write it


def draw_photo(seed: int = 0, size: tuple[int, int] = (96, 64)) -> Image.Image:
    """A structured RGB picture: a gradient sky with shapes whose places and colours follow from the seed."""
    import numpy as np

    rng = np.random.default_rng(seed)
    width, height = size
    top, bottom = rng.uniform(0, 255, (2, 3))
    rows = np.linspace(0, 1, height)[:, None, None]
    pixels = np.broadcast_to(top * (1 - rows) + bottom * rows, (height, width, 3))
    photo = Image.fromarray(pixels.astype(np.uint8))
    draw = ImageDraw.Draw(photo)
    for _ in range(7):
        x, y = rng.integers(0, width), rng.integers(0, height)
        reach_x, reach_y = rng.integers(2, max(3, width // 3)), rng.integers(2, max(3, height // 3))
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        box = (int(x), int(y), int(x + reach_x), int(y + reach_y))
        (draw.ellipse if rng.random() < 0.5 else draw.rectangle)(box, fill=colour)
    return photo


def encode_photo(photo: Image.Image, format: str = "JPEG", **options: object) -> bytes:
    """The picture as the bytes of a file."""
    buffer = BytesIO()
    photo.save(buffer, format, **options)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def photo() -> Draw:
    """`photo(seed, (width, height))` draws a picture."""
    return draw_photo


@pytest.fixture(scope="session")
def photo_bytes() -> DrawBytes:
    """`photo_bytes(seed, (width, height), "PNG")` draws a picture and gives the bytes of a file."""

    def make(seed: int = 0, size: tuple[int, int] = (96, 64), format: str = "JPEG", **options: object) -> bytes:
        return encode_photo(draw_photo(seed, size), format, **options)

    return make


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


@pytest.fixture(scope="session")
def tiny_network():
    """A small pair network of one question."""
    return make_tiny_network()


@pytest.fixture(scope="session")
def tiny_network_of_two():
    """A small pair network that answers *copy* and *thing*."""
    return make_tiny_network(questions=("copy", "thing"), parts=2)


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory, tiny_network) -> Path:
    """The directory of a small artifact; treat it as read-only, copy it to change it."""
    from diptych_export.artifact import export_artifact
    from diptych_runtime.manifest import Question

    directory = tmp_path_factory.mktemp("artifact") / "tiny"
    export_artifact(
        tiny_network,
        directory,
        name="tiny",
        questions={"match": Question(1.5, -0.25, {"0.01": 0.9, "0.001": 0.97, "0.0001": 0.99})},
        training={"note": "random weights"},
    )
    return directory


@pytest.fixture(scope="session")
def artifact_of_two(tmp_path_factory: pytest.TempPathFactory, tiny_network_of_two) -> Path:
    """The directory of a small artifact that answers *copy* and *thing*; treat it as read-only."""
    from diptych_export.artifact import export_artifact
    from diptych_runtime.manifest import Question

    directory = tmp_path_factory.mktemp("artifact") / "two"
    export_artifact(
        tiny_network_of_two,
        directory,
        questions={
            "thing": Question(0.75, 0.5, {"0.01": 0.8, "0.001": 0.85}),
            "copy": Question(2.0, -1.25, {"0.01": 0.6, "0.001": 0.7}),
        },
        pairs=400,
    )
    return directory


@pytest.fixture(scope="session")
def artifact_that_looks(tmp_path_factory: pytest.TempPathFactory, artifact_of_two: Path) -> Path:
    """The small artifact of two questions, which takes a closer look at all pairs before it speaks of copies, and calls
    *same* what can be laid over each other; treat it as read-only.
    """
    import json
    import shutil

    from diptych_runtime.closer_look.evidence import FEATURES

    directory = shutil.copytree(artifact_of_two, tmp_path_factory.mktemp("artifact") / "looks")
    manifest = json.loads((directory / "manifest.json").read_text())
    weights = dict.fromkeys(FEATURES, 0.0) | {"bias": -4.0, "registered": 4.0, "agreement_60": 12.0}
    look = {"above": 1e-7, "weights": weights, "thresholds": {"0.01": 0.5, "0.001": 0.9}}
    manifest["questions"]["copy"]["verification"] = look
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


@pytest.fixture(scope="session")
def artifact_with_negatives(tmp_path_factory: pytest.TempPathFactory, artifact: Path) -> Path:
    """The small artifact with thresholds of random negatives; treat it as read-only."""
    import json
    import shutil

    directory = shutil.copytree(artifact, tmp_path_factory.mktemp("artifact") / "negatives")
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["questions"]["match"]["negatives"] = {"random": {"0.01": 0.8, "0.001": 0.99}, "nearest": {"0.01": 0.95}}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Shapes are not enforced at every call: what a user without that switch is told can be tested."""
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory):
    """The kernel built from the sources that are there."""
    from diptych_runtime.kernel import KernelError, Library
    from diptych_runtime.kernel.build import build, compiler

    try:
        compiler()
    except KernelError as error:
        pytest.skip(str(error))
    return Library(build(Path(tmp_path_factory.mktemp("kernel"), "kernel.so")))
