"""The device that networks are trained on."""

import torch


def default_device(place: int = 0) -> torch.device:
    """The CUDA device at a place where there is CUDA, the CPU elsewhere."""
    return torch.device("cuda", place) if torch.cuda.is_available() else torch.device("cpu")
