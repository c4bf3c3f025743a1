"""A checkpoint: `weights.safetensors` and `config.json` in one directory, and no pickle."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from diptych_model.config import PairConfig
from diptych_model.network import PairNetwork

WEIGHTS, CONFIG = "weights.safetensors", "config.json"
FORMAT = 3
_READ = (2, FORMAT)


def save_checkpoint(network: PairNetwork, directory: str | Path, metadata: dict[str, Any] | None = None) -> str:
    """Write the network and its metadata; return the SHA-256 of the weights.

    `metadata` must be JSON: metrics, calibration, thresholds, the recipe.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    files = checkpoint_files(network, metadata)
    for name, data in files.items():
        written = folder / f"{name}.new"
        with written.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        written.replace(folder / name)
    return hashlib.sha256(files[WEIGHTS]).hexdigest()


def checkpoint_files(
    network: PairNetwork, metadata: dict[str, Any] | None = None, *, half: bool = False
) -> dict[str, bytes]:
    """The files of a checkpoint by name; `half` keeps the weights in float16, enough to train on from."""
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    if half:
        state = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    weights = save(state)
    digest = hashlib.sha256(weights).hexdigest()
    described = {"format": FORMAT, "network": network.config.to_dict(), "sha256": digest, "metadata": metadata or {}}
    return {WEIGHTS: weights, CONFIG: (json.dumps(described, indent=2) + "\n").encode()}


def read_description(directory: str | Path) -> dict[str, Any]:
    """The description of a checkpoint (`network`, `sha256`, `metadata`), read without its weights; raises `ValueError`
    where files are missing or of another format.
    """
    folder = Path(directory)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"a checkpoint is a directory with {CONFIG} and {WEIGHTS}; {folder} has no {name}")
    try:
        described = json.loads((folder / CONFIG).read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / CONFIG} is damaged ({error}); restore it or train again") from None
    if not isinstance(described, dict):
        raise ValueError(f"{folder / CONFIG} is damaged (no object of JSON); restore it or train again")
    if described.get("format") not in _READ:
        raise ValueError(
            f"{folder / CONFIG} is of format {described.get('format')!r}, this version reads {FORMAT}: "
            "load it with the version that wrote it, or train again"
        )
    return described


def load_checkpoint(directory: str | Path) -> tuple[PairNetwork, dict[str, Any]]:
    """Return the network, in evaluation mode, and its metadata; raise `ValueError` where it is not whole."""
    folder, described = Path(directory), read_description(directory)
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    if digest != described["sha256"]:
        raise ValueError(
            f"{folder / WEIGHTS} is damaged: expected SHA-256 {described['sha256'][:12]}..., got {digest[:12]}...; "
            "restore it or train again"
        )
    config, state = PairConfig.from_dict(described["network"]), load_file(folder / WEIGHTS)
    if described["format"] == 2:
        state = {name.replace("panel.stem.", "panel.encoder."): value for name, value in state.items()}
    with torch.device("meta"):  # shapes without memory: the configuration may ask for more than there is
        wanted = PairNetwork(config).state_dict()
    if unlike := [
        name for name in wanted.keys() | state.keys() if _tensor_shape(wanted, name) != _tensor_shape(state, name)
    ]:
        name = min(unlike)
        raise ValueError(
            f"{folder / WEIGHTS} does not fit {CONFIG}: expected {name} of shape {_tensor_shape(wanted, name)}, got "
            f"{_tensor_shape(state, name)}; restore the one that was exchanged or train again"
        )
    network = PairNetwork(config)
    network.load_state_dict(state)
    return network.eval(), described["metadata"]


def _tensor_shape(state: Mapping[str, Tensor], name: str) -> tuple[int, ...] | None:
    """The shape of a tensor, None for one that is not there."""
    return tuple(state[name].shape) if name in state else None
