"""Another relation in the place of a model's pair part: what its panel part is worth alone."""

from dataclasses import replace
from pathlib import Path

from diptych_model import PairNetwork, load_checkpoint


def related_by(relation: str, checkpoint: Path) -> PairNetwork:
    """The panel part of a checkpoint with the control *late* or *siamese* in its trunk's place.

    Its logits are lines through the control's similarity that were not fitted: they rank, and are no probabilities.
    """
    theirs = load_checkpoint(checkpoint)[0]
    network = PairNetwork(replace(theirs.config, relation=relation))
    state = theirs.panel.state_dict()
    network.panel.load_state_dict({name: state[name] for name in network.panel.state_dict()})
    return network
