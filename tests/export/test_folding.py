from typing import Any

import pytest
import torch
from networks import small_network

from diptych_export.folding import FoldedMSAC, count_graph_flops, fold_network
from diptych_model import Msac, Scale

FORMS: dict[str, dict[str, Any]] = {
    "scales that share a product, and one with a window": {
        "mixer": Msac((Scale(1, 1, 1, 4, 4), Scale(1, 1, 2, 4, 4), Scale(3, 3, 2, 4, 4, separable=True)))
    },
    "scales of different widths": {"mixer": Msac((Scale(1, 1, 1, 4, 6), Scale(1, 1, 2, 5, 3)))},
    "a convolution beside the attention": {
        "mixer": Msac((Scale(1, 1, 2, 4, 4, residual_convolution=True), Scale(1, 1, 1, 4, 4)))
    },
    "columns counted on over the seam": {"segment": "added", "bias": "concatenated"},
    "no bias": {"segment": "concatenated", "bias": "none"},
    "grouped filters": {"mixer": Msac((Scale(1, 1, 2, 4, 4, groups=2), Scale(3, 3, 2, 4, 4, groups=2)))},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_folded_network_computes_what_the_network_does(form: str) -> None:
    network = small_network(**FORMS[form]).eval()
    made = fold_network(network)
    assert any(isinstance(module, FoldedMSAC) for module in made.modules())
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(3, *network.config.token_shape, generator=generator) for _ in range(2))
    with torch.no_grad():
        torch.testing.assert_close(made.relate(a, b), network.relate(a, b), rtol=1e-5, atol=1e-6)
        if network.has_attention:
            torch.testing.assert_close(made.attention(a, b), network.attention(a, b), rtol=1e-5, atol=1e-6)


def test_in_the_middle_of_training_a_frozen_copy_is_folded_and_the_network_trains_on() -> None:
    network = small_network().train()
    made = fold_network(network)
    assert not made.training
    assert not any(parameter.requires_grad for parameter in made.parameters())
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_the_cost_is_that_of_the_products_that_are_left(tiny_network) -> None:
    # 32 tokens of width 12 in both panels; two scales of 2 heads of 4 and 4; a depthwise window of 3 x 3; hidden 24.
    tokens, d, hidden = 32, 12, 24
    projections = 2 * 2 * tokens * d * 24
    window = 2 * tokens * d * 9
    attention = 2 * 2 * tokens * tokens * 2 * (4 + 4)
    reductions = 2 * 2 * tokens * 8 * d
    feed = 2 * 2 * tokens * d * hidden
    head = 2 * (2 * d * d + d)
    found = count_graph_flops(tiny_network)
    assert found["pair"] == 2 * (projections + window + attention + reductions + feed) + head
    assert found["panel"] > 0
