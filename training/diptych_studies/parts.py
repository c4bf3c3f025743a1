"""Parts of a pair network alone: its panel part under another relation, and its encoder as ImageNet taught it."""

from dataclasses import replace
from pathlib import Path

import torch

from diptych_model import PairConfig, PairNetwork, load_checkpoint
from diptych_training.learning.pretrained import pretrained_encoder


def relate_by(relation: str, checkpoint: Path) -> PairNetwork:
    """The panel part of a checkpoint with the control *late* or *siamese* in its trunk's place.

    Its logits are lines through the control's similarity that were not fitted: they rank, and are no probabilities.
    """
    theirs = load_checkpoint(checkpoint)[0]
    network = PairNetwork(replace(theirs.config, relation=relation))
    state = theirs.panel.state_dict()
    network.panel.load_state_dict({name: state[name] for name in network.panel.state_dict()})
    return network


def load_untrained(checkpoint: Path) -> PairNetwork:
    """Load a checkpoint's encoder as ImageNet taught it.

    The network gives the cosine of its descriptions, at the same panel size. Raises `DataError` where the encoder has
    no such weights or their package is missing.
    """
    theirs = load_checkpoint(checkpoint)[0]
    encoder = theirs.config.encoder
    config = PairConfig(
        pixels=theirs.config.pixels,
        encoder=encoder,
        embedding=encoder.description_width,
        relation="siamese",
        questions=theirs.config.questions,
    )
    network = PairNetwork(config)
    network.panel.encoder.load_state_dict(pretrained_encoder(theirs).state_dict())
    with torch.no_grad():
        network.panel.embedding.weight.copy_(torch.eye(encoder.description_width))
        network.panel.embedding.bias.zero_()
    return network
