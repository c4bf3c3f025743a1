import pytest
import torch
from networks import small_network

from diptych_export.folding import PairModule, fold_network
from diptych_export.graphs import OPSET, _export_module, export_graphs
from diptych_export.parity import compare_graphs, drawn_pixels
from diptych_model import Msac, PairNetwork, Scale
from diptych_model.mixers import MIXERS
from diptych_runtime.session import open_session

# One that attends otherwise than the released models' mixer, which passed the whole gate where the artifact of the
# tests was exported; a pair graph takes two seconds. The gate, which all mixers pass below, has it once more.
USUAL = ("decoder",)
TOKENS = ("tokens_a", "tokens_b")
VARIANTS = {
    "the paper's form": {"segment": "added", "bias": "concatenated"},
    "segments as channels": {"segment": "concatenated", "bias": "none"},
    "a convolution beside the attention": {"mixer": Msac((Scale(3, 3, 2, 4, 4, residual_convolution=True),))},
    "even windows and heads of different widths": {
        "mixer": Msac((Scale(2, 4, 2, 4, 6), Scale(1, 3, 3, 5, 4, separable=True)))
    },
    "windows over the seam": {"seam": "tokens"},
    "t in pixels, segments added": {"seam": "pixels", "segment": "added", "bias": "concatenated"},
    "t in pixels, two questions": {"seam": "pixels", "questions": ("copy", "thing")},
    "one scale without segments": {"segment": "none", "mixer": Msac((Scale(1, 1, 2, 4, 4),))},
}


def assert_passes_the_gate(made: PairNetwork) -> None:
    parity = compare_graphs(made, export_graphs(made), pairs=400)
    parity.require()
    assert {difference.batches for difference in parity.differences} >= {(1, 2, 3, 8)}
    shown = {difference.output for difference in parity.differences if difference.graph == "explain"}
    assert shown == ({"attention"} if made.has_attention else set())


@pytest.mark.parametrize("kind", USUAL)
def test_the_pair_graph_of_a_mixer_computes_what_torch_computes(kind):
    made = small_network(mixer=MIXERS[kind](), segment="relative").eval()
    with torch.no_grad():
        tokens, _ = made.encode(torch.from_numpy(drawn_pixels(4, 24, seed=1)).permute(0, 3, 1, 2) / 255)
        wanted = made.relate(tokens[:3], tokens[1:])
    # This graph alone, for the others take three times as long.
    graph = _export_module(
        PairModule(fold_network(made)), dict(zip(TOKENS, tokens.split(2), strict=True)), ["logits"], OPSET
    )
    session = open_session(graph.SerializeToString())
    got = session.run(None, dict(zip(TOKENS, (tokens[:3].numpy(), tokens[1:].numpy()), strict=True)))[0]
    torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=1e-5, atol=1e-5)
    assert wanted.std() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", MIXERS)
def test_every_mixer_passes_the_gate_with_a_dynamic_batch(kind):
    assert_passes_the_gate(small_network(mixer=MIXERS[kind](), segment="relative"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_form_of_the_network_passes_the_gate(variant):
    assert_passes_the_gate(small_network(**VARIANTS[variant]))
