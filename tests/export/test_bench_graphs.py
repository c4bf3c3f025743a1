import numpy as np
import pytest

from diptych.bench.graphs import FOLDER, SGEMM_SIZE, YARDSTICKS, open_yardstick
from diptych_export.bench_graphs import TOKENS, sgemm, vit_s16_pair


def test_the_files_are_what_the_program_writes() -> None:
    made = dict(zip(YARDSTICKS, (sgemm(), vit_s16_pair()), strict=True))
    for name, model in made.items():
        assert (FOLDER / f"{name}.onnx").read_bytes() == model.SerializeToString(deterministic=True)
    assert {path.stem for path in FOLDER.glob("*.onnx")} == set(YARDSTICKS)


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


def test_an_unknown_yardstick_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        open_yardstick("ruler", 1)
