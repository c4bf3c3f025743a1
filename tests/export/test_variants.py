"""Forms of the network other than the released ones: each passes the gate, which every export passes."""

import pytest
from networks import small_network

from diptych_export.graphs import export_graphs
from diptych_export.parity import compare_graphs
from diptych_model import Msac, Scale

VARIANTS = {
    "the paper's form, windows over the seam": {
        "segment": "added",
        "bias": "concatenated",
        "seam": "tokens",
        "mixer": Msac((Scale(3, 3, 2, 4, 4, residual_convolution=True),)),
    },
    "segments as channels, even windows and heads of different widths": {
        "segment": "concatenated",
        "bias": "none",
        "mixer": Msac((Scale(2, 4, 2, 4, 6), Scale(1, 3, 3, 5, 4, separable=True))),
    },
    "t in pixels, two questions": {
        "seam": "pixels",
        "segment": "added",
        "bias": "concatenated",
        "questions": ("copy", "thing"),
    },
    "one scale without segments": {"segment": "none", "mixer": Msac((Scale(1, 1, 2, 4, 4),))},
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_form_of_the_network_passes_the_gate(variant: str) -> None:
    made = small_network(**VARIANTS[variant])
    parity = compare_graphs(made, export_graphs(made), pairs=100)
    parity.require()
    assert {difference.batches for difference in parity.differences} >= {(1, 2, 3, 8)}
    shown = {difference.output for difference in parity.differences if difference.graph == "explain"}
    assert shown == ({"attention"} if made.has_attention else set())
