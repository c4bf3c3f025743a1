"""A pair graph in 8 bits that is put into an artifact."""

import json
import shutil

import numpy as np
import onnx
import pytest
from PIL import Image

from diptych_export import byte_artifact as module
from diptych_export.byte_artifact import RANKED, add_byte_pairs, byte_pair_if_judged, ranking_texts
from diptych_export.byte_pair import in_bytes
from diptych_export.graphs import Graphs
from diptych_export.parity import drawn_pixels
from diptych_export.precision import Pictures
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import KernelError
from diptych_runtime.manifest import MANIFEST, PAIR_INT8_GRAPH, Manifest
from diptych_runtime.models import MODELS
from diptych_runtime.runtime import Runtime


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, pixels in enumerate(drawn_pixels(32, 160, seed=3)):
        Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return folder


@pytest.fixture
def plain(tmp_path):
    """The small released model as it was before there was such a graph."""
    folder = shutil.copytree(MODELS / "photo-small", tmp_path / "plain")
    (folder / PAIR_INT8_GRAPH).unlink()
    described = json.loads((folder / MANIFEST).read_text())
    del described["digests"][PAIR_INT8_GRAPH], described["ranking"][RANKED]
    (folder / MANIFEST).write_text(json.dumps(described, indent=2))
    return folder


def test_an_artifact_gets_it_and_keeps_all_else_and_its_revision(vnni, plain, pictures):
    before = Manifest.load(plain)
    assert Runtime.open(plain, provider="cpu").pair_path.startswith(f"float32: the model has no {PAIR_INT8_GRAPH}; ")
    ranking = add_byte_pairs(plain, pictures)
    after = Manifest.load(plain)
    assert after.revision == before.revision
    assert after.digests.keys() - before.digests.keys() == {PAIR_INT8_GRAPH}
    assert after.ranking[RANKED]["micro_ap"] == list(ranking.micro_ap)
    assert Runtime.open(plain, provider="cpu").pair_path == "int8 (avx512_vnni)"
    assert any("the pair graph in 8 bits" in text for text in ranking_texts(after.ranking))


def test_one_that_ranks_worse_is_refused_and_nothing_is_written(vnni, plain, pictures, monkeypatch):
    def spoiled(graph):
        made = right(graph)
        for tensor in made.graph.initializer:
            if tensor.data_type == onnx.TensorProto.INT8:
                values = onnx.numpy_helper.to_array(tensor)
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.flip(values).copy(), tensor.name))
        return made

    right = in_bytes
    monkeypatch.setattr(module, "in_bytes", spoiled)
    before = (plain / MANIFEST).read_bytes()
    with pytest.raises(ArtifactError, match=r"micro-AP falls from .* at most 0.003 is allowed"):
        add_byte_pairs(plain, pictures)
    assert (plain / MANIFEST).read_bytes() == before
    assert not (plain / PAIR_INT8_GRAPH).exists()


def test_a_processor_that_cannot_judge_it_leaves_it_out_or_says_so(plain, pictures, monkeypatch):
    def missing():
        raise KernelError("it was not built")

    monkeypatch.setattr(module, "load_kernel", missing)
    graphs = Graphs(*(onnx.load(plain / f"{part}.onnx") for part in Graphs._fields))
    assert byte_pair_if_judged(graphs, Pictures.read_folder(pictures, 128), {}) == ({}, {})
    with pytest.raises(ArtifactError, match="cannot be judged without the kernel: it was not built"):
        add_byte_pairs(plain, pictures)
