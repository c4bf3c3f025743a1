import json
import re
import shutil

import numpy as np
import onnx
import pytest
import torch

from diptych_export.parity import drawn_pixels
from diptych_runtime import runtime as module
from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import KernelError, load_kernel
from diptych_runtime.manifest import digest
from diptych_runtime.runtime import PAIR_CHUNK, Runtime

SIZES = (1, 2, 3, PAIR_CHUNK, 17, 23)


@pytest.fixture(scope="module")
def runtime(artifact):
    return Runtime.open(artifact, provider="cpu", threads=1, kernel="off")


@pytest.fixture(scope="module")
def pixels(runtime):
    return drawn_pixels(max(SIZES) + 1, runtime.panel_size, seed=1)


@pytest.fixture(scope="module")
def panels(runtime, pixels):
    return runtime.encode(pixels)


def test_the_runtime_computes_what_the_network_computes(runtime, tiny_network, pixels, panels):
    with torch.no_grad():
        tokens, embeddings = tiny_network.encode(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255)
        half = torch.from_numpy(panels.tokens.astype(np.float32))
        logits = tiny_network.relate(half[:-1], half[1:]).numpy()
        swapped = tiny_network.relate(half[1:], half[:-1]).numpy()
    assert (panels.tokens.dtype, panels.embeddings.dtype) == (np.float16, np.float32)
    np.testing.assert_allclose(
        panels.tokens, runtime.codec.round_tokens(tokens.numpy()), atol=2**-5
    )  # a step of theirs
    np.testing.assert_allclose(panels.embeddings, embeddings.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(panels.embeddings, axis=1), 1, atol=1e-6)
    got = runtime.pair_logits(panels.tokens[:-1], panels.tokens[1:])
    assert np.ptp(got) > 1e-3, "the pairs must differ for this to mean anything"
    assert np.minimum(np.abs(got - logits), np.abs(got - swapped)).max() < 1e-5


@pytest.mark.parametrize("size", SIZES)
def test_batch_mates_leave_no_trace_in_the_bits(size, runtime, pixels, panels):
    again = runtime.encode(pixels[:size])
    assert np.array_equal(again.tokens, panels.tokens[:size])
    assert np.array_equal(again.embeddings, panels.embeddings[:size])
    alone = [runtime.pair_logits(a[None], b[None])[0] for a, b in zip(panels.tokens, panels.tokens[1:], strict=False)]
    logits = runtime.pair_logits(panels.tokens[:size], panels.tokens[1 : size + 1])
    assert logits.dtype == np.float32
    assert logits.tobytes() == np.array(alone[:size], np.float32).tobytes()


@pytest.fixture
def built():
    try:
        return load_kernel()
    except KernelError as error:
        pytest.skip(str(error))


def test_the_kernel_computes_what_the_body_does_and_leaves_no_trace_of_batch_or_order_either(
    artifact, built, runtime, panels
):
    a, b = panels.tokens[:17], np.roll(panels.tokens[:17], 5, 0)
    body = runtime.pair_logits(a, b)
    for threads in (1, 2):
        fast = Runtime.open(artifact, provider="cpu", threads=threads, kernel="require")
        assert fast.attention_path == f"kernel ({built.instructions})"
        logits = fast.pair_logits(a, b)
        np.testing.assert_allclose(logits, body, atol=1e-5)
        assert fast.pair_logits(b, a).tobytes() == logits.tobytes()
        assert np.array_equal([fast.pair_logits(a[i : i + 1], b[i : i + 1])[0] for i in range(17)], logits)
        np.testing.assert_allclose(fast.attention(a, b), runtime.attention(a, b), atol=1e-6)


def _without_kernel(monkeypatch):
    def missing():
        raise KernelError("it was not built")

    monkeypatch.setattr(module, "load_kernel", missing)


def _without_node(monkeypatch):
    monkeypatch.setattr(module, "NAME", "RelPosAttentionV9")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_without_kernel, "it was not built"),
        (_without_node, "the graph has no node RelPosAttentionV2: .*older version"),
    ],
)
def test_without_the_kernel_the_body_runs_and_says_why_unless_it_is_required(
    change, reason, artifact, monkeypatch, panels, runtime
):
    change(monkeypatch)
    opened = Runtime.open(artifact, provider="cpu")
    assert re.match(f"function body: no kernel, {reason}", opened.attention_path)
    logits = opened.pair_logits(panels.tokens[:3], panels.tokens[1:4])
    assert np.array_equal(logits, runtime.pair_logits(panels.tokens[:3], panels.tokens[1:4]))
    with pytest.raises(ArtifactError, match=f"the kernel is required but cannot be used: {reason}"):
        Runtime.open(artifact, provider="cpu", kernel="require")


def with_graph(artifact, directory, graph):
    """A copy of the artifact with another pair graph, whose digest is right."""
    shutil.copytree(artifact, directory)
    data = graph.SerializeToString()
    (directory / "pair.onnx").write_bytes(data)
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["digests"]["pair.onnx"] = digest(data)
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def test_a_float16_model_does_not_meet_the_float32_kernel(artifact, built, tmp_path, panels, runtime):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    graph = convert_float_to_float16(onnx.load(artifact / "pair.onnx"), keep_io_types=True)
    half = with_graph(artifact, tmp_path / "half", graph)
    opened = Runtime.open(half, provider="cpu")
    assert opened.attention_path.startswith("function body: no kernel, ONNX Runtime")
    expected = runtime.pair_logits(panels.tokens[:3], panels.tokens[1:4])
    np.testing.assert_allclose(opened.pair_logits(panels.tokens[:3], panels.tokens[1:4]), expected, atol=0.05)
    with pytest.raises(ArtifactError, match="the kernel is required but cannot be used: ONNX Runtime"):
        Runtime.open(half, provider="cpu", kernel="require")


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_node_that_nobody_knows_is_an_error_that_names_it(mode, artifact, tmp_path):
    graph = onnx.load(artifact / "pair.onnx")
    for node in graph.graph.node:
        if node.domain == "diptych":
            node.op_type = "RelPosAttentionV9"
    renamed = with_graph(artifact, tmp_path / "renamed", graph)
    with pytest.raises(ArtifactError, match=r"cannot open the artifact's graph: .*RelPosAttentionV9"):
        Runtime.open(renamed, provider="cpu", kernel=mode)


def test_the_attention_is_what_the_network_computes_whatever_the_batch(runtime, tiny_network, panels):
    a, b = panels.tokens[:19], np.roll(panels.tokens[:19], 5, 0)
    seen = runtime.attention(a, b)
    with torch.no_grad():
        expected = tiny_network.attention(*(torch.from_numpy(side.astype(np.float32)) for side in (a, b)))
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen, expected.numpy(), atol=1e-6)
    assert np.array_equal(
        np.concatenate([runtime.attention(a[:1], b[:1]), runtime.attention(a[1:4], b[1:4])]), seen[:4]
    )
    assert np.array_equal(runtime.attention(a[:1], b), runtime.attention(np.repeat(a[:1], 19, 0), b))
    assert runtime.attention(a[:0], b[:0]).shape == (0, 16, 16)
    assert np.array_equal(runtime.attention(b, a), seen.swapaxes(1, 2))
    assert not np.allclose(seen, seen.swapaxes(1, 2), atol=1e-4)


def test_an_artifact_from_before_the_explain_graph_scores_and_says_how_to_get_one(artifact, tmp_path, runtime, panels):
    copy = shutil.copytree(artifact, tmp_path / "copy")
    (copy / "explain.onnx").unlink()
    values = json.loads((copy / "manifest.json").read_text())
    del values["digests"]["explain.onnx"]
    (copy / "manifest.json").write_text(json.dumps(values))
    old = Runtime.open(copy, provider="cpu", threads=1, kernel="off")
    pair = (panels.tokens[:1], panels.tokens[1:2])
    assert not old.explains
    assert old.revision == runtime.revision
    assert np.array_equal(old.pair_logits(*pair), runtime.pair_logits(*pair))
    with pytest.raises(ArtifactError, match=r"'tiny' cannot show its attention.*export its checkpoint again with"):
        old.attention(*pair)


def test_wrong_shapes_are_refused_with_both_shapes(runtime, panels):
    with pytest.raises(ValueError, match=r"uint8 \(B, 32, 32, 3\), got float64 \(1, 32, 32, 3\)"):
        runtime.encode(np.zeros((1, 32, 32, 3)))
    with pytest.raises(ValueError, match=r"got uint8 \(1, 16, 32, 3\)"):
        runtime.encode(np.zeros((1, 16, 32, 3), np.uint8))
    with pytest.raises(ValueError, match=r"tokens_b must be \(P, 4, 4, 12\), got \(4, 4, 12\)"):
        runtime.pair_logits(panels.tokens[:1], panels.tokens[0])
    with pytest.raises(ValueError, match="tokens_a has 2 rows and tokens_b 3"):
        runtime.pair_logits(panels.tokens[:2], panels.tokens[:3])


def test_relevance_is_the_calibrated_sigmoid_and_never_overflows(runtime):
    logits = np.array([-1e4, -3, 0, 0.1666666667, 3, 1e4], np.float32)
    relevance = runtime.relevance(logits)
    assert relevance.dtype == np.float32
    expected = 1 / (1 + np.exp(-(1.5 * logits[1:-1].astype(np.float64) - 0.25)))
    np.testing.assert_allclose(relevance[1:-1], expected, rtol=1e-6)
    assert (relevance[0], relevance[-1]) == (0, 1)
    assert (np.diff(relevance) > 0).all()


@pytest.mark.parametrize("file", ["panel.onnx", "pair.onnx", "explain.onnx"])
def test_a_flipped_bit_is_refused(file, artifact, tmp_path, panels):
    copy = shutil.copytree(artifact, tmp_path / "copy")
    data = bytearray((copy / file).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / file).write_bytes(data)
    with pytest.raises(ArtifactError, match=rf"{file} is damaged or was exchanged: its sha256 is"):
        Runtime.open(copy).attention(panels.tokens, panels.tokens)


def test_unknown_providers_and_impossible_thread_counts_are_refused(artifact):
    with pytest.raises(ArtifactError, match="must be one of auto, cpu, cuda, got 'gpu'"):
        Runtime.open(artifact, provider="gpu")
    with pytest.raises(ArtifactError, match="threads must be at least 1, got 0"):
        Runtime.open(artifact, threads=0)
