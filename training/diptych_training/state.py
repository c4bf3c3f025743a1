"""The state of a training that goes on after it was stopped: module, optimiser and generator, in one file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from diptych_runtime.atomic import replacing_file
from diptych_training.errors import DataError


def save_state(
    path: Path,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    rng: np.random.Generator | None = None,
    **others: Any,
) -> None:
    """Write the state, whole or not at all; `others` are tensors, numbers, and lists and dictionaries of them."""
    kept: dict[str, Any] = {"module": module.state_dict(), "optimiser": optimiser.state_dict(), "others": others}
    if rng is not None:
        kept["rng"] = json.dumps(rng.bit_generator.state)
    with replacing_file(path) as unfinished:
        torch.save(kept, unfinished)


def restore_state(
    path: Path,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    rng: np.random.Generator | None = None,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """Restore a state in place, and return the others. Raises `DataError` where the file is damaged."""
    try:
        kept = torch.load(path, map_location=device, weights_only=True)
        module.load_state_dict(kept["module"])
        optimiser.load_state_dict(kept["optimiser"])
        if rng is not None:
            rng.bit_generator.state = json.loads(kept["rng"])
        return kept["others"]
    except Exception:  # of every kind, from zip files to shapes
        raise DataError(f"{path} is damaged: remove it to begin that training anew") from None
