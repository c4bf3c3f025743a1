"""Hard negatives: the photos that the current embedding finds most alike."""

import faiss
import numpy as np
import torch

from diptych_model import PairNetwork
from diptych_training.augment import plain


@torch.no_grad()
def embed(network: PairNetwork, pixels: torch.Tensor, size: int, batch: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode photos uint8 (n, H, H, 3), unedited, at `size` pixels: tokens (n, N, M, d) and embeddings (n, e),
    float32.
    """
    training, device = network.training, network.device
    network.eval()
    parts = [network.encode(plain(pixels[i : i + batch], size).to(device)) for i in range(0, len(pixels), batch)]
    network.train(training)
    return torch.cat([tokens for tokens, _ in parts]), torch.cat([embedding for _, embedding in parts])


def nearest(embeddings: np.ndarray, subjects: np.ndarray, count: int = 24) -> np.ndarray:
    """Return for each photo the positions (n, count) of its nearest by cosine, photos of its own subject left out.

    Near-duplicates hide among the very nearest of unlabelled photos: the first of all is passed over where there is a
    choice.
    """
    index = faiss.IndexFlatIP(embeddings.shape[1])
    index.add(np.ascontiguousarray(embeddings, np.float32))
    _, found = index.search(np.ascontiguousarray(embeddings, np.float32), min(len(embeddings), 2 * count + 40))
    kept = np.empty((len(embeddings), count), np.int64)
    for i, row in enumerate(found):
        others = row[(subjects[row] != subjects[i]) & (row != i)][1:]
        kept[i] = np.resize(others, count)
    return kept
