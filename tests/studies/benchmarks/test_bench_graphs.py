import numpy as np

from diptych.bench.graphs import FOLDER, SGEMM_SIZE, open_yardstick
from diptych_studies.benchmarks.bench_graphs import TOKENS, cnn_pair, late_interaction, sgemm, vit_s16_pair


def test_the_files_are_what_the_program_writes() -> None:
    made = {"sgemm": sgemm(), "vit_s16_pair": vit_s16_pair(), "cnn_pair": cnn_pair(), "late": late_interaction()}
    for name, model in made.items():
        assert (FOLDER / f"{name}.onnx").read_bytes() == model.SerializeToString(deterministic=True)
    assert {path.stem for path in FOLDER.glob("*.onnx")} == set(made)


def test_the_product_is_a_product() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, SGEMM_SIZE, SGEMM_SIZE), np.float32)
    (c,) = open_yardstick("sgemm", 1).run(None, {"a": a, "b": b})
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)


def test_the_peer_has_the_layers_of_vit_s16_over_both_pictures() -> None:
    graph = vit_s16_pair().graph
    kinds = [node.op_type for node in graph.node]
    # Four products with weights and two of attention a layer; patches and head besides.
    assert (kinds.count("MatMul"), kinds.count("Softmax"), kinds.count("Gelu")) == (12 * 6 + 1, 12, 12)
    assert TOKENS == 1 + 2 * (224 // 16) ** 2
    session = open_yardstick("vit_s16_pair", 1)
    logits = session.run(None, {"pixels": np.random.default_rng(0).random((2, 3, 224, 448), np.float32)})[0]
    assert logits.shape == (2, 1)
    assert np.isfinite(logits).all()


def test_the_peer_has_the_convolutions_of_resnet_18_over_both_pictures() -> None:
    kinds = [node.op_type for node in cnn_pair().graph.node]
    # The stem, two a block, and a shortcut wherever the width changes.
    assert (kinds.count("Conv"), kinds.count("Add")) == (1 + 8 * 2 + 3, 8)
    session = open_yardstick("cnn_pair", 1)
    logits = session.run(None, {"pixels": np.random.default_rng(0).random((2, 6, 224, 224), np.float32)})[0]
    assert logits.shape == (2, 1)
    assert np.isfinite(logits).all()
    assert logits[0] != logits[1]


def test_late_interaction_is_the_mean_of_the_best_cosines_both_ways() -> None:
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((4, 7, 5)).astype(np.float32)
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    a, b = tokens[:1].astype(np.float16), tokens[1:].astype(np.float16)
    (scores,) = open_yardstick("late", 1).run(None, {"a": a, "b": b})
    cosines = np.einsum("qd,pkd->pqk", a[0].astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(scores, (cosines.max(2).mean(1) + cosines.max(1).mean(1)) / 2, rtol=1e-5)
