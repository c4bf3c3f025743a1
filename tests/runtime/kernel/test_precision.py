"""The choice between the float32 pair graph and the one in 8 bits."""

import re
import shutil
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from diptych_runtime.errors import ArtifactError
from diptych_runtime.kernel import Library
from diptych_runtime.kernel.precision import pair_graph, pair_precision
from diptych_runtime.manifest import PAIR_INT8_GRAPH, Manifest
from diptych_runtime.models import MODELS
from diptych_runtime.runtime import Runtime


def kernel_on(byte_instructions: str) -> Library:
    """A kernel on some processor."""
    return cast("Library", SimpleNamespace(byte_instructions=byte_instructions))


@pytest.fixture(scope="module")
def manifest():
    return Manifest.load(MODELS / "photo")


@pytest.fixture(scope="module")
def both(vnni):
    return [Runtime.open("photo", provider="cpu", threads=1, pairs=asked) for asked in ("float32", "int8")]


@pytest.fixture(scope="module")
def tokens(both):
    rng = np.random.default_rng(0)
    size = both[0].panel_size
    coarse = rng.integers(0, 256, (20, 6, 6, 3), np.uint8).repeat(size // 6, 1).repeat(size // 6, 2)
    return both[0].encode(coarse).tokens


def test_8_bits_are_taken_where_the_artifact_the_kernel_and_the_processor_have_them(manifest):
    assert pair_graph(manifest, kernel_on("avx512_vnni"), "auto") == (PAIR_INT8_GRAPH, "int8 (avx512_vnni)")
    assert pair_graph(manifest, kernel_on("avx512_vnni"), "auto").suffix == "-int8"
    assert pair_graph(manifest, kernel_on("avx512_vnni"), "float32").suffix == ""


def test_else_float32_is_taken_and_the_reason_is_said_or_it_is_an_error_where_8_bits_are_required(manifest, artifact):
    lacking = [
        (manifest, kernel_on(""), "this processor has no AVX-512 VNNI"),
        (manifest, None, "8 bits need the kernel"),
        (
            Manifest.load(artifact),
            kernel_on("avx512_vnni"),
            f"the model has no {PAIR_INT8_GRAPH}; `diptych export --precision int8` writes one",
        ),
    ]
    for known, library, reason in lacking:
        assert pair_graph(known, library, "auto") == ("pair.onnx", f"float32: {reason}")
        with pytest.raises(ArtifactError, match=f"required but cannot be had: {re.escape(reason)}"):
            pair_graph(known, library, "int8")


def test_the_environment_says_which_precision_and_kernel_where_the_call_does_not(monkeypatch):
    assert pair_precision() == "auto"
    monkeypatch.setenv("DIPTYCH_PAIR_PRECISION", "float32")
    assert (pair_precision(), pair_precision("int8")) == ("float32", "int8")
    assert Runtime.open("photo", provider="cpu", threads=1).pair_path == "float32: it was asked for"
    monkeypatch.setenv("DIPTYCH_KERNEL", "off")
    assert Runtime.open("photo", provider="cpu", threads=1).attention_path == "function body: the kernel is off"
    monkeypatch.setenv("DIPTYCH_KERNEL", "always")
    with pytest.raises(ArtifactError, match="must be one of auto, off, require, got 'always'"):
        Runtime.open("photo", provider="cpu")
    monkeypatch.setenv("DIPTYCH_PAIR_PRECISION", "int4")
    with pytest.raises(ArtifactError, match="must be one of auto, float32, int8, got 'int4'"):
        pair_precision()


def test_scores_in_8_bits_are_close_and_named_apart(both, tokens):
    exact, fast = both
    known = f"{exact.revision}{exact.codec.suffix}"
    assert (fast.scores_revision, exact.scores_revision) == (f"{known}-int8", known)
    a, b = tokens[:10], tokens[10:]
    mine, known = fast.all_logits(a, b), exact.all_logits(a, b)
    assert 0 < np.abs(mine - known).max() < 0.3
    assert np.abs(mine - known).mean() < 0.05


def test_neither_the_order_of_a_pair_nor_its_batch_leaves_a_trace_in_8_bits(both, tokens):
    fast = both[1]
    a, b = tokens[:17], np.roll(tokens[:17], 5, 0)
    logits = fast.all_logits(a, b)
    assert fast.all_logits(b, a).tobytes() == logits.tobytes()
    for size in (1, 2, 3, 8, 9):
        parts = [fast.all_logits(a[i : i + size], b[i : i + size]) for i in range(0, 17, size)]
        assert np.concatenate(parts).tobytes() == logits.tobytes()


def test_a_damaged_graph_in_8_bits_is_refused(vnni, tmp_path):
    shutil.copytree(MODELS / "photo-small", tmp_path / "copy")
    path = tmp_path / "copy" / PAIR_INT8_GRAPH
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="is damaged or was exchanged"):
        Runtime.open(tmp_path / "copy", provider="cpu")
