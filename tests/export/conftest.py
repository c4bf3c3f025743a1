from pathlib import Path

import onnx
import pytest

from diptych_export import artifact as module
from diptych_export.graphs import Graphs
from diptych_runtime.kernel import KernelError, Library
from diptych_runtime.kernel.build import build, compiler


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The kernel built from the sources that are there."""
    try:
        compiler()
    except KernelError as error:
        pytest.skip(str(error))
    return Library(build(Path(tmp_path_factory.mktemp("kernel"), "kernel.so")))


@pytest.fixture
def written_graphs(artifact, monkeypatch) -> Graphs:
    """The session's graphs in place of a new export, which takes seconds: for tests of what happens around it."""
    graphs = Graphs(*(onnx.load(artifact / f"{part}.onnx") for part in Graphs._fields))
    monkeypatch.setattr(module, "export_graphs", lambda network, opset: graphs)
    return graphs
