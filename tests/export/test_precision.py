from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from diptych_export import precision as module
from diptych_export.artifact import export_artifact
from diptych_export.byte_pair import in_bytes
from diptych_export.graphs import export_graphs
from diptych_export.parity import drawn_pixels
from diptych_export.precision import PAIR_LOSS, RANKED, Pictures, Ranking, make_int8, ranking_texts
from diptych_model import load_checkpoint
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import KernelError
from diptych_runtime.manifest import PAIR_INT8_GRAPH, Manifest
from diptych_runtime.models import CHECKPOINT, MODELS
from diptych_runtime.runtime import Runtime

COUNT = 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Drawn pictures, two levels deep, beside what is none."""
    folder: Path = tmp_path_factory.mktemp("pictures")
    for number, pixels in enumerate(drawn_pixels(COUNT, 160, seed=3)):
        path = folder / f"part{number % 4}" / f"{number:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
    (folder / "part0" / "notes.txt").write_text("nothing to see")
    (folder / "part0" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    return folder


@pytest.fixture(scope="module")
def photo():
    return export_graphs(load_checkpoint(MODELS / "photo-small" / CHECKPOINT)[0])


@pytest.fixture(scope="module")
def pictures(folder):
    return Pictures.read_folder(folder, 128)


def types_of(graph):
    return {onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in graph.graph.initializer}


def test_half_of_the_pictures_calibrate_and_edits_of_the_others_judge(pictures, folder):
    assert pictures.calibration.shape == pictures.originals.shape == pictures.edits.shape == (COUNT // 2, 128, 128, 3)
    everything = np.concatenate([pictures.calibration, pictures.originals])
    assert len(np.unique(everything.reshape(COUNT, -1), axis=0)) == COUNT
    assert (pictures.edits != pictures.originals).any((1, 2, 3)).all()
    assert np.array_equal(Pictures.read_folder(folder, 128).edits, pictures.edits)


@pytest.fixture
def without_kernel(monkeypatch):
    def missing():
        raise KernelError("it was not built")

    monkeypatch.setattr(module, "load_kernel", missing)


def spoil(graph, ending: str):
    """The graph with every other of its tensors of these names turned end for end."""
    for tensor in [tensor for tensor in graph.graph.initializer if tensor.name.endswith(ending)][::2]:
        values = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.flip(values).copy(), tensor.name))
    return graph


@pytest.mark.slow
def test_int8_ranks_as_before_with_a_panel_graph_of_two_fifths_the_size(photo, pictures, without_kernel):
    small, files, ranking = make_int8(photo, pictures, {})
    assert ranking["micro_ap"][0] > 0.5, "the edits must be findable for this to mean anything"
    assert "INT8" in types_of(small.panel)
    assert len(small.panel.SerializeToString()) < 0.4 * len(photo.panel.SerializeToString())
    assert small.pair == photo.pair
    assert files == {}, "pairs in 8 bits are not written where nobody can judge them"


@pytest.mark.slow
def test_where_the_processor_can_judge_them_pairs_in_8_bits_are_a_file_beside(photo, pictures, vnni):
    _, files, ranking = make_int8(photo, pictures, {})
    assert files.keys() == {PAIR_INT8_GRAPH}
    Ranking(**ranking[RANKED]).require(PAIR_LOSS)
    assert "the pair graph in 8 bits" in ranking_texts(ranking)[1]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["panel", "pair"])
def test_wrong_weights_ruin_the_ranking_and_are_refused(part, photo, pictures, monkeypatch, request):
    if part == "pair":
        request.getfixturevalue("vnni")
        monkeypatch.setattr(module, "in_bytes", lambda graph: spoil(in_bytes(graph), ".weights"))
    else:
        quantize = module.quantize_panel
        monkeypatch.setattr(module, "quantize_panel", lambda *given: spoil(quantize(*given), "_quantized"))
    with pytest.raises(ArtifactError, match=rf"falls from .* over {COUNT // 2} pictures.*nothing was written"):
        make_int8(photo, pictures, {})


@pytest.mark.parametrize(("recall", "micro_ap"), [((0.9, 0.8899), (0.9, 0.9)), ((0.9, 0.9), (0.9, float("nan")))])
def test_either_figure_may_refuse(recall, micro_ap):
    Ranking(100, (0.9, 0.8901), (0.9, 0.95)).require()
    with pytest.raises(ArtifactError, match=r"at most 0\.01 is allowed"):
        Ranking(100, recall, micro_ap).require()


def test_an_artifact_in_fewer_bits_scores_alike_and_no_batch_leaves_a_trace(
    tiny_network, written_graphs, folder, tmp_path, artifact, monkeypatch
):
    monkeypatch.setattr(Ranking, "require", lambda *_: None)  # random weights rank nothing
    out = tmp_path / "small"
    export_artifact(tiny_network, out, check=False, precision="int8", pictures=folder)
    manifest = Manifest.load(out)
    assert (manifest.precision, manifest.ranking["pictures"]) == ("int8", COUNT // 2)
    small, exact = Runtime.open(out, provider="cpu"), Runtime.open(artifact, provider="cpu")
    pixels = drawn_pixels(19, small.panel_size, seed=5)
    panels, expected = small.encode(pixels), exact.encode(pixels)
    np.testing.assert_allclose(panels.embeddings, expected.embeddings, atol=0.1)
    alone = [small.encode(picture[None]) for picture in pixels]
    assert np.array_equal(panels.tokens, np.concatenate([one.tokens for one in alone]))
    logits = small.pair_logits(expected.tokens[:17], expected.tokens[1:18])
    np.testing.assert_allclose(logits, exact.pair_logits(expected.tokens[:17], expected.tokens[1:18]), atol=0.02)


def test_what_it_is_judged_by_has_to_be_there(tiny_network, tmp_path):
    with pytest.raises(ArtifactError, match="int8 is made and judged by pictures; give a folder"):
        export_artifact(tiny_network, tmp_path / "out", precision="int8")
    with pytest.raises(ArtifactError, match="is no folder"):
        export_artifact(tiny_network, tmp_path / "out", precision="int8", pictures=tmp_path / "nowhere")
    Image.new("RGB", (20, 20)).save(tmp_path / "one.png")
    with pytest.raises(ArtifactError, match="has 1 readable pictures; at least 32 are needed"):
        export_artifact(tiny_network, tmp_path / "out", precision="int8", pictures=tmp_path)
    with pytest.raises(ArtifactError, match="must be one of float32, int8, got 'int4'"):
        export_artifact(tiny_network, tmp_path / "out", precision="int4", pictures=tmp_path)
    assert not (tmp_path / "out").exists()
