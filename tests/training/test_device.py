import pytest
import torch

from diptych_training.device import default_device


def test_networks_are_trained_on_cuda_where_there_is_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in ((False, "cpu"), (True, "cuda:1")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert default_device(1) == torch.device(expected)
