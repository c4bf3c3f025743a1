"""The same network for smaller panels: fewer tokens, so a pair costs less."""

from __future__ import annotations

from dataclasses import replace

import torch.nn.functional as F
from torch import Tensor

from diptych_model.network import PairNetwork
from diptych_runtime.errors import ArtifactError


def resized(network: PairNetwork, pixels: int) -> PairNetwork:
    """A network for panels of `pixels` a side with the same weights, its tables of positions cut or averaged to that
    size.

    Raises ArtifactError for a size it does not take.
    """
    most, step = network.config.pixels, network.config.reduction
    if not 0 < pixels <= most or pixels % step:
        raise ArtifactError(f"panels of {pixels} pixels cannot be written: take a multiple of {step}, at most {most}")
    if pixels == most:
        return network
    made = PairNetwork(replace(network.config, pixels=pixels))
    state = made.state_dict()
    for name, theirs in network.state_dict().items():
        state[name] = theirs if theirs.shape == state[name].shape else _smaller(name, theirs, state[name])
    made.load_state_dict(state)
    return made.train(network.training)


def _smaller(name: str, theirs: Tensor, mine: Tensor) -> Tensor:
    if name == "panel.position":
        # As the panel part does with smaller panels.
        return F.adaptive_avg_pool2d(theirs.permute(2, 0, 1), mine.shape[0]).permute(1, 2, 0)
    if name.endswith("bias.table"):
        return theirs[..., : mine.shape[-2], : mine.shape[-1]]
    raise ArtifactError(f"{name} is made for one size of panel; train a network of the size that you need")
