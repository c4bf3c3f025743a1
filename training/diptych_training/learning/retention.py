"""Retention of the encoder's knowledge from before it was fine-tuned: how alike photos were to it.

A vector is free to turn; which photos are near which is the knowledge (Fang et al. 2021, *SEED*). Only the part of the
embedding that answers *thing* is held to it: copies are told by what ImageNet taught to overlook.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from diptych_model import PairNetwork
from diptych_training.data.augment import view_unedited
from diptych_training.device import mixed_precision
from diptych_training.learning.pretrained import pretrained_encoder

PHOTOS = 2048  # whose likeness is remembered
DRAWN = 48  # of them in a step
TEMPERATURE = 0.1


@dataclass(frozen=True)
class Memory:
    """Photos, uint8 (n, H, H, 3), and their descriptions by the untouched encoder, unit vectors (n, pooled) about
    their mean.
    """

    photos: Tensor
    known: Tensor

    def draw_photos(self, size: int, generator: Generator) -> tuple[Tensor, Tensor]:
        """`DRAWN` of the photos, unedited, as pictures (n, 3, size, size), and their known embeddings."""
        chosen = torch.randperm(len(self.photos), generator=generator)[:DRAWN]
        return view_unedited(self.photos[chosen], size), self.known[chosen]


@torch.no_grad()
def remember_photos(network: PairNetwork, photos: Tensor, size: int) -> Memory:
    """Describe photos, uint8 (n, H, H, 3), as the encoder's ImageNet weights do."""
    encoder, parts = pretrained_encoder(network).to(network.device).eval(), []
    for chunk in photos.split(64):
        pictures = view_unedited(chunk.to(network.device), size).contiguous(memory_format=torch.channels_last)
        with mixed_precision(network.device):
            parts.append(encoder(pictures)[1].float())
    known = torch.cat(parts)
    return Memory(photos.to(network.device), F.normalize(known - known.mean(0), dim=-1))


def retention_loss(embeddings: Tensor, known: Tensor) -> Tensor:
    """Divergence of whom unit vectors (n, e) are near from whom those that are `known` (n, k) are near, itself left
    out: a mean over rows.
    """
    itself = torch.eye(len(known), dtype=torch.bool, device=known.device)
    teacher, student = (
        (vectors @ vectors.T / TEMPERATURE).masked_fill(itself, -1e4).log_softmax(1) for vectors in (known, embeddings)
    )
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)
