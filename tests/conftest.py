"""What all tests share: a small artifact, small pictures drawn from a seed, and the command line."""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pillow_heif
import pytest
from archives import write_archives, write_omniglot
from exported import copy_of_kernel, copy_of_literal, copy_of_tiny, copy_of_two, make_tiny_network
from PIL import Image, ImageDraw
from started import free_port

if TYPE_CHECKING:
    from diptych import Scorer

Draw = Callable[..., Image.Image]
DrawBytes = Callable[..., bytes]

pillow_heif.register_heif_opener()  # so that Pillow can write it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--longest",
        type=float,
        metavar="SECONDS",
        help="fail what takes longer on a processor: a test, or a fixture of less than a run",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Of several processes each begins to collect at another place: in a fresh checkout one then finds compiled what
    another has come by, where all side by side would compile all.
    """
    worker, root = getattr(config, "workerinput", None), Path(__file__).parent
    if worker is None or [Path(name).absolute() for name in config.args] != [root]:
        return
    tops = [top for top in sorted(root.iterdir()) if top.name not in config.getini("norecursedirs")]
    places = [path for top in tops for path in (sorted(top.iterdir()) if top.is_dir() else [top])]
    places = [path for path in places if path.match("test_*.py") or (path.is_dir() and any(path.rglob("test_*.py")))]
    left_out = {Path(name).absolute() for name in config.getoption("ignore") or ()}
    places = [path for path in places if path not in left_out]
    begin = len(places) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args[:] = map(str, [*places[begin:], *places[:begin]])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup` one process has all tests of a server that there can be only one of, or that is heavy.

    While one process exports the artifacts, which it does once a machine, others begin with what needs none.
    """
    items.sort(key=_turn)
    for item in items:
        for name in ("milvus", "ray", "browser"):
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.xdist_group(name))


def pytest_collection_finish() -> None:
    """The garbage collector passes over all that is imported and collected, which stays to the end, and it runs rarely.

    Otherwise each full collection looks through it again, half a second 46 times in a run of all tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Shapes are enforced at every call where the model and its graphs are tested; elsewhere that is an eighth of what
    the tests of training take.
    """
    if (jaxtyping := sys.modules.get("jaxtyping")) is not None:
        enforced = any(
            Path(__file__).parent / name in item.path.parents for name in ("model", "export", "studies/networks")
        )
        jaxtyping.config.update("jaxtyping_disable", not enforced)


def _turn(item: pytest.Item) -> tuple[int, tuple[str, ...]]:
    path = item.path.as_posix()
    first = 0 if path.endswith("tests/export/test_artifact.py") else 1 if "/tests/model/" in path else 2
    return first, item.path.parts


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _at_most(item.config.getoption("longest"), "the test"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
    # Once a run things may take their time: an export with cold libraries, a server.
    limit = None if fixturedef.scope == "session" else request.config.getoption("longest")
    with _at_most(limit, f"the fixture {fixturedef.argname!r}"):
        return (yield)


@contextmanager
def _at_most(limit: float | None, name: str) -> Iterator[None]:
    begun = _processor_time()
    yield
    if limit is not None and (took := _processor_time() - begun) > limit:
        pytest.fail(
            f"{name} took {took:.0f} s of a processor, where {limit:g} s are the most: make it cheaper, or mark the "
            "test slow and let a cheaper one hold by default what matters most of it",
            pytrace=False,
        )


def _processor_time() -> float:
    """Seconds of this process and of those that it has waited for: what else a machine does takes none of them."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


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


@pytest.fixture(scope="session")
def tiny_network():
    """A small pair network of one question."""
    return make_tiny_network()


@pytest.fixture(scope="session")
def tiny_network_of_two():
    """A small pair network that answers *copy* and *thing*."""
    return make_tiny_network(questions=("copy", "thing"), parts=2)


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small artifact; treat it as read-only, copy it to change it."""
    return copy_of_tiny(tmp_path_factory.mktemp("artifact") / "tiny")


@pytest.fixture(scope="session")
def artifact_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small artifact that answers *copy* and *thing*; treat it as read-only."""
    return copy_of_two(tmp_path_factory.mktemp("artifact") / "two")


@pytest.fixture(scope="session")
def literal_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small artifact whose pair graph is a whole network over t = [x, z]; treat it as read-only."""
    return copy_of_literal(tmp_path_factory.mktemp("artifact") / "literal")


@pytest.fixture(scope="session")
def artifact_that_looks(tmp_path_factory: pytest.TempPathFactory, artifact_of_two: Path) -> Path:
    """The small artifact of two questions, which takes a closer look at all pairs before it speaks of copies, and calls
    *same* what can be laid over each other; treat it as read-only.
    """
    from diptych_runtime.calibration.evidence import NUMBERS

    directory = shutil.copytree(artifact_of_two, tmp_path_factory.mktemp("artifact") / "looks")
    manifest = json.loads((directory / "manifest.json").read_text())
    weights = dict.fromkeys(NUMBERS, 0.0) | {"bias": -4.0, "registered": 4.0, "aligned_odds": 1.0}
    look = {"above": 1e-7, "weights": weights, "thresholds": {"0.01": 0.5, "0.001": 0.9}}
    manifest["questions"]["copy"]["verification"] = look
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


@pytest.fixture(scope="session")
def artifact_with_negatives(tmp_path_factory: pytest.TempPathFactory, artifact: Path) -> Path:
    """The small artifact with thresholds of random negatives; treat it as read-only."""
    directory = shutil.copytree(artifact, tmp_path_factory.mktemp("artifact") / "negatives")
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["questions"]["match"]["negatives"] = {"random": {"0.01": 0.8, "0.001": 0.99}, "nearest": {"0.01": 0.95}}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


@pytest.fixture
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the default store is: never that of whoever runs the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    monkeypatch.delenv("DIPTYCH_STORE", raising=False)
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # a command that runs in this process sets it for good
    monkeypatch.delenv("PYTHONSAFEPATH")
    return tmp_path / "data-home"


@pytest.fixture
def environment(data_home: Path) -> dict[str, str]:
    """What processes started by tests see."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def scorer(artifact: Path) -> Scorer:
    from diptych import Scorer

    return Scorer.load(str(artifact), provider="cpu", threads=1)


@pytest.fixture
def diptych(capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """`diptych("score", a, b)` runs a command in this process: `.code`, `.out`, `.err`, `.json`."""
    from diptych.cli.main import main

    def run(*arguments: object) -> Any:
        capfd.readouterr()
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        finally:  # `serve` sets up the log of its process
            root.handlers[:] = handlers
            root.setLevel(level)
        out, err = capfd.readouterr()
        return SimpleNamespace(
            code=code, out=out, err=err, json=json.loads(out) if "--json" in arguments and out else None
        )

    return run


@pytest.fixture
def port() -> int:
    """A port of this machine that nobody listens on."""
    return free_port()


@pytest.fixture
def spawn(environment: dict[str, str]):
    """`spawn("score", a, b)` starts a command in a process of its own, which is killed in the end if it still runs;
    `under` is the command line of a program that starts it.
    """
    running: list[subprocess.Popen[str]] = []
    program = "import sys; from diptych.cli.main import main; sys.exit(main())"

    def run(*arguments: object, under: Sequence[str] = ()) -> subprocess.Popen[str]:
        command = [*under, sys.executable, "-c", program, *map(str, arguments)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def written_graphs(artifact: Path, monkeypatch: pytest.MonkeyPatch):
    """The small artifact's graphs in place of a new export of seconds: for tests of what happens around it."""
    import onnx

    from diptych_export import artifact as module
    from diptych_export.graphs import Graphs

    graphs = Graphs(*(onnx.load(artifact / f"{part}.onnx") for part in Graphs._fields))
    monkeypatch.setattr(module, "export_graphs", lambda network, opset: graphs)
    return graphs


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
    from diptych_runtime.kernel.build import find_compiler

    try:
        find_compiler()
    except KernelError as error:
        pytest.skip(str(error))
    return Library(copy_of_kernel(tmp_path_factory.mktemp("kernel")))


@pytest.fixture(scope="session")
def vnni():
    """The kernel as it is installed, where this processor has what the pair graph in 8 bits needs."""
    from diptych_runtime.kernel import KernelError, load_kernel

    try:
        library = load_kernel()
    except KernelError as error:
        pytest.skip(str(error))
    if not library.byte_instructions:
        pytest.skip("this processor has no AVX-512 VNNI")
    return library


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory, photo_bytes) -> Path:
    """A folder with clothing.zip, flowers.zip, goods.zip and grocery.zip of drawn pictures."""
    folder = tmp_path_factory.mktemp("archives")
    write_archives(folder, photo_bytes)
    return folder


@pytest.fixture(scope="session")
def omniglot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with omniglot.zip: alphabets of 21 and 3 characters, each drawn by 4 hands, in both splits."""
    folder = tmp_path_factory.mktemp("omniglot")
    write_omniglot(folder)
    return folder
