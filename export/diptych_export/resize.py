"""The same network for panels of another size: with fewer tokens a pair costs less."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from diptych_model.correspondence import resized_position
from diptych_model.network import PairNetwork
from diptych_runtime.errors import ArtifactError

MOST = 2048  # pixels of a side: a pair of panels has a product of all tokens with all


def resized(network: PairNetwork, pixels: int) -> PairNetwork:
    """A network for panels of `pixels` a side with the same weights, its tables of positions brought to that size as
    the network itself brings them to other panels.

    Raises ArtifactError for a size it does not take.
    """
    step = network.config.encoder.divisor
    if not 0 < pixels <= MOST or pixels % step:
        raise ArtifactError(
            f"panels of {pixels} pixels cannot be written: take a multiple of {step} from {step} to {MOST}"
        )
    if pixels == network.config.pixels:
        return network
    made = PairNetwork(replace(network.config, pixels=pixels))
    state = made.state_dict()
    for name, theirs in network.state_dict().items():
        state[name] = theirs if theirs.shape == state[name].shape else _brought(name, theirs, state[name])
    made.load_state_dict(state)
    return made.train(network.training)


def _brought(name: str, theirs: Tensor, mine: Tensor) -> Tensor:
    if name.endswith(("position", "x_seg", "z_seg")):
        return resized_position(theirs, mine.shape[0])
    if name.endswith("bias.table"):
        rows, cols = (_within(theirs.shape[axis], torch.arange(mine.shape[axis])) for axis in (-2, -1))
        return theirs.index_select(-2, rows).index_select(-1, cols)
    if name.endswith(("r_H.r", "r_W.r")):
        # Vectors of the offsets from -reach to reach.
        reach, theirs_reach = mine.shape[1] // 2, theirs.shape[1] // 2
        return theirs.index_select(1, _within(theirs.shape[1], torch.arange(-reach, reach + 1) + theirs_reach))
    raise ArtifactError(f"{name} is made for one size of panel; train a network of the size that you need")


def _within(size: int, places: Tensor) -> Tensor:
    """Places of a table, those beyond its ends being its ends."""
    return places.clamp(0, size - 1)
