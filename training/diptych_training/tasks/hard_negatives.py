"""Hard negatives, the photos that the current embedding finds most alike, and the false ones among them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
import torch
from PIL import Image

from diptych_model import PairNetwork
from diptych_training.data.augment import view_unedited
from diptych_training.device import mixed_precision


def encode_photos(network: PairNetwork, pixels: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode photos uint8 (n, H, H, 3), unedited, at `size` pixels: tokens (n, N, M, d) and embeddings (n, e),
    float32.
    """
    parts = list(_encode_batches(network, pixels, size, mixed=False))
    return torch.cat([tokens for tokens, _ in parts]), torch.cat([embedding for _, embedding in parts])


def embed_photos(network: PairNetwork, pixels: torch.Tensor, size: int, *, mixed: bool = False) -> torch.Tensor:
    """Embed photos as `encode_photos` does, without holding all the tokens.

    Embeddings are (n, e). `mixed` computes in bfloat16 where that is as good: near enough to mine with.
    """
    return torch.cat([embeddings for _, embeddings in _encode_batches(network, pixels, size, mixed=mixed)])


@torch.no_grad()
def _encode_batches(
    network: PairNetwork, pixels: torch.Tensor, size: int, *, mixed: bool
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    training, device = network.training, network.device
    network.eval()
    for chunk in pixels.split(64):
        pictures = view_unedited(chunk.to(device), size).contiguous(memory_format=torch.channels_last)
        with mixed_precision(device, mixed):
            tokens, embeddings = network.encode(pictures)
        yield tokens.float(), embeddings.float()
    network.train(training)


def fill_bank(network: PairNetwork, pixels: torch.Tensor, size: int) -> None:
    """Embed the pictures of the network's bank, uint8 (n, H, H, 3), if it has one: fewer than it holds several times
    over; without pictures it stays.
    """
    if network.config.bank and len(pixels):
        places = torch.arange(network.config.bank) % len(pixels)
        network.panel.embedding.bank.copy_(embed_photos(network, pixels, size)[places.to(network.device)])


def find_nearest(embeddings: np.ndarray, subjects: np.ndarray, count: int = 24) -> np.ndarray:
    """Return for each photo the positions (n, count) of its nearest by cosine, photos of its own subject left out."""
    vectors = np.ascontiguousarray(embeddings, np.float32)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    _, found = index.search(vectors, min(len(vectors), 2 * count + 40))
    kept = np.empty((len(vectors), count), np.int64)
    for i, row in enumerate(found):
        others = row[subjects[row] != subjects[i]]
        # Where a photo's neighbourhood is all of its own subject, any other photo is as good.
        kept[i] = np.resize(others if len(others) else np.flatnonzero(subjects != subjects[i]), count)
    return kept


def without_duplicates(subjects: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Give near-duplicates one subject, so that none is taught as another's negative: new subjects, int64 (n,).

    Near-duplicates are photos uint8 (n, H, H, 3) whose perceptual hashes (64 bits) differ in at most four and whose
    mean colours in at most a tenth: the hash is of brightness only, and an article in red is not the one in green.
    """
    from imagehash import phash

    with ThreadPoolExecutor(2) as pool:
        hashes = list(pool.map(lambda picture: phash(Image.fromarray(picture)).hash.ravel(), pixels))
    colours = pixels.mean((1, 2)) / 255
    packed = np.packbits(np.stack(hashes), axis=1)
    index = faiss.IndexBinaryFlat(64)
    index.add(packed)
    limits, _, found = index.range_search(packed, 5)
    merged = np.unique(subjects, return_inverse=True)[1].astype(np.int64)
    for i in range(len(packed)):
        for j in found[limits[i] : limits[i + 1]]:
            if merged[i] != merged[j] and np.abs(colours[i] - colours[j]).max() <= 0.1:
                merged[merged == max(merged[i], merged[j])] = min(merged[i], merged[j])
    return merged
