import onnx
import pytest

from diptych_export import artifact as module
from diptych_export.graphs import Graphs


@pytest.fixture
def written_graphs(artifact, monkeypatch) -> Graphs:
    """The session's graphs in place of a new export, which takes seconds: for tests of what happens around it."""
    graphs = Graphs(*(onnx.load(artifact / f"{part}.onnx") for part in Graphs._fields))
    monkeypatch.setattr(module, "export_graphs", lambda network, opset: graphs)
    return graphs
