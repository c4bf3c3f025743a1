"""Small pair networks with random weights everywhere, for what starts at zero or one would hide a mistake, and what may
stand in the place of the convolutions of whole networks.
"""

from typing import Any

import torch

from diptych_model import Msac, PairConfig, PairNetwork, Residual, Scale
from diptych_model.mixers import Mixer

TINY_MSAC = Msac((Scale(1, 1, 2, 4, 4), Scale(3, 3, 2, 4, 4, separable=True)))
MIXING: dict[str, Mixer | None] = {"convolution": None, "msac": TINY_MSAC}


def small_network(**changes: Any) -> PairNetwork:
    sizes: dict[str, Any] = {
        "pixels": 24,
        "encoder": Residual((8, 12), (1, 1)),
        "width": 12,
        "embedding": 10,
        "blocks": 1,
    }
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = PairNetwork(PairConfig(**(sizes | changes)))
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return made
