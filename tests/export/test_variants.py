import pytest
from networks import small_network

from diptych_export.graphs import export_graphs
from diptych_export.parity import compare
from diptych_model import Msac, PairNetwork, Scale
from diptych_model.mixers import MIXERS
from diptych_runtime.errors import ArtifactError

VARIANTS = {
    "the paper's form": {"segment": "added", "bias": "concatenated"},
    "segments as channels": {"segment": "concatenated", "bias": "none"},
    "a convolution beside the attention": {"mixer": Msac((Scale(3, 3, 2, 4, 4, residual_convolution=True),))},
    "even windows and heads of different widths": {
        "mixer": Msac((Scale(2, 4, 2, 4, 6), Scale(1, 3, 3, 5, 4, separable=True)))
    },
    "windows over the seam": {"seam": "tokens"},
    "one scale without segments": {"segment": "none", "mixer": Msac((Scale(1, 1, 2, 4, 4),))},
}


def assert_passes_the_gate(made: PairNetwork) -> None:
    parity = compare(made, export_graphs(made), pairs=400)
    parity.require()
    assert {difference.batches for difference in parity.differences} >= {(1, 2, 3, 8)}
    shown = {difference.output for difference in parity.differences if difference.graph == "explain"}
    assert shown == ({"attention"} if made.attentive else set())


@pytest.mark.parametrize("kind", MIXERS)
def test_every_mixer_passes_the_gate_with_a_dynamic_batch(kind):
    assert_passes_the_gate(small_network(mixer=MIXERS[kind](), segment="relative"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_form_of_the_network_passes_the_gate(variant):
    assert_passes_the_gate(small_network(**VARIANTS[variant]))


def test_a_network_without_a_panel_part_of_its_own_is_refused():
    with pytest.raises(ArtifactError, match="seam = 'pixels' has no panel graph"):
        export_graphs(small_network(seam="pixels", segment="added"))
