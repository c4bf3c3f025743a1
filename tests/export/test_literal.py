"""An artifact of the literal form: one graph from both pictures' pixels to the logits, in both orders.

No released model has it, and to export this one takes longer than the next ten tests: what is slow here is run by
.ci/run. By default the form is held in torch, by `test_network` of the model and `test_literal` of training.
"""

import numpy as np
import pytest
import torch
from exported import make_literal_network

from diptych_export.parity import drawn_pixels
from diptych_runtime.runtime import Runtime

PIXELS = drawn_pixels(5, 32, seed=4)


@pytest.fixture(scope="module")
def runtime(literal_artifact):
    return Runtime.open(literal_artifact, provider="cpu", threads=1)


@pytest.mark.slow
def test_the_runtime_computes_what_torch_computes_and_order_leaves_no_trace(runtime):
    network = make_literal_network()
    a, b = (torch.from_numpy(side).permute(0, 3, 1, 2) / 255 for side in (PIXELS[:4], PIXELS[1:]))
    with torch.no_grad():
        wanted = network(a, b).numpy()
    tokens = runtime.encode(PIXELS).tokens
    assert np.array_equal(tokens, PIXELS.astype(np.float16)), "what is kept of a picture are its pixels"
    found = runtime.pair_logits(tokens[:4], tokens[1:])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.array_equal(found, runtime.pair_logits(tokens[1:], tokens[:4]))
    seen = runtime.attention(tokens[:1], tokens[1:2])
    assert seen.shape == (1, 16, 16)
    assert np.array_equal(seen, runtime.attention(tokens[1:2], tokens[:1]).swapaxes(1, 2))
