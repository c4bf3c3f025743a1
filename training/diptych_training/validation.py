"""How a run chooses its best checkpoint: both tasks, on photos, classes and contributors it never trains on."""

import numpy as np
import torch
from torch import Tensor

from diptych_model import PairNetwork
from diptych_training.augment import HEAVY, edit
from diptych_training.metrics import Ranking, two_stages
from diptych_training.mining import embed
from diptych_training.photos import Photos


class Validation:
    """Edited queries among unedited photos, and shop photos among catalogue pictures; always the same ones."""

    def __init__(self, photos: Photos, sprites: Tensor, size: int, *, queries: int = 128, gallery: int = 1500) -> None:
        rng = np.random.default_rng(0)
        held_out = photos.where(kinds=("clothing", "flowers"), split="validation")
        distractors = photos.where(kinds=("clothing", "flowers"), split="train")
        pixels = torch.from_numpy(photos.pixels)
        self.size = size
        self.truth = rng.permutation(len(held_out))[:queries]
        generator = torch.Generator().manual_seed(0)
        # Queries are edited once; `edit` already gives the size of a panel.
        self.queries = edit(pixels[held_out[self.truth]], size, HEAVY, generator, sprites)
        self.gallery = pixels[np.concatenate([held_out, rng.permutation(distractors)[:gallery]])]
        shots = rng.permutation(photos.where(kinds=("grocery",), split="validation"))[:queries]
        iconic = np.concatenate([photos.where(kinds=("iconic",), split=split) for split in ("validation", "train")])
        names = [photos.rows[i].subject for i in iconic]
        self.shots, self.iconic = pixels[shots], pixels[iconic]
        self.shot_truth = np.array([names.index(photos.rows[i].subject) for i in shots])

    def measure(self, network: PairNetwork, candidates: int = 20) -> dict[str, float]:
        """Return the figures of both tasks, of the embedding and re-ranked; `score` is what a run maximises."""
        measured: dict[str, float] = {}
        for task, (first, after) in {
            "copy": self.copies(network, candidates),
            "catalogue": self.catalogue(network),
        }.items():
            for name, value in first.summary().items():
                measured[f"{task}_{name}"] = value
            for name, value in after.summary().items():
                measured[f"{task}_reranked_{name}"] = value
        measured["score"] = 0.7 * measured["copy_reranked_micro_ap"] + 0.3 * measured["catalogue_reranked_recall@1"]
        return measured

    @torch.no_grad()
    def copies(self, network: PairNetwork, candidates: int) -> tuple[Ranking, Ranking]:
        """Rank the edited queries by the embedding, and re-rank the first `candidates` of each."""
        looked = network.eval().encode(self.queries.to(network.device))
        return _two_stages(network, looked, self.gallery, self.truth, self.size, candidates)

    @torch.no_grad()
    def catalogue(self, network: PairNetwork) -> tuple[Ranking, Ranking]:
        """Rank all catalogue pictures for each shop photo, by the embedding and re-ranked."""
        looked = embed(network.eval(), self.shots, self.size)
        return _two_stages(network, looked, self.iconic, self.shot_truth, self.size, len(self.iconic))


def _two_stages(
    network: PairNetwork,
    looked: tuple[Tensor, Tensor],
    gallery: Tensor,
    truth: np.ndarray,
    size: int,
    candidates: int,
) -> tuple[Ranking, Ranking]:
    query_tokens, query_embeddings = looked
    tokens, embeddings = embed(network, gallery, size)
    cosines = query_embeddings @ embeddings.T
    best = cosines.argsort(1, descending=True)[:, :candidates]
    candidates = best.shape[1]
    with torch.autocast(network.device.type, torch.bfloat16):
        logits = [
            network.relate(query.expand(candidates, -1, -1, -1), tokens[row]).float()
            for query, row in zip(query_tokens, best, strict=True)
        ]
    relevant = best.cpu().numpy() == truth[:, None]
    found = np.ones(len(truth), bool)
    return two_stages(cosines.gather(1, best).cpu().numpy(), torch.stack(logits).cpu().numpy(), relevant, found)
