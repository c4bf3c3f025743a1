"""DenseNets with any mixer: against torch's own layers, the known sizes, and that they learn."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from drawing import draw, losses_of_training
from networks import MIXING
from torch import Tensor

from diptych_model.flops import count_parameters
from diptych_model.networks.densenet import DEPTHS, DenseNet


def tiny(**settings: Any) -> DenseNet:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return DenseNet((2, 1), 5, 20, 12, growth=6, **settings)


def by_torch(network: DenseNet, x: Tensor) -> Tensor:
    """The same network in the layers of torch, channels first, from the stored weights."""
    weights = dict(network.state_dict())

    def norm(y: Tensor, name: str) -> Tensor:
        parts = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.relu(F.batch_norm(y, *parts))

    y = F.conv2d(x.permute(0, 3, 1, 2), weights["layers.0.convolution.H"], stride=2, padding=3)
    y = F.max_pool2d(norm(y, "layers.0.norm"), 3, stride=2, padding=1)
    for layer, kind in enumerate(("dense", "dense", "transition", "dense"), 1):
        at = f"layers.{layer}"
        if kind == "dense":
            z = F.conv2d(norm(y, f"{at}.before"), weights[f"{at}.narrow.H"])
            y = torch.cat([y, F.conv2d(norm(z, f"{at}.norm"), weights[f"{at}.spatial.H"], padding=1)], 1)
        else:
            y = F.conv2d(norm(y, f"{at}.norm"), weights[f"{at}.narrow.H"])
            y = F.avg_pool2d(y, 2, ceil_mode=True)
    return F.linear(norm(y, "norm").mean((2, 3)), weights["head.weight"], weights["head.bias"])


def test_with_convolutions_it_is_the_network_that_torchs_layers_make() -> None:
    network, x = tiny().double().eval(), draw(3, 20, 12, 3)
    for number, (name, tensor) in enumerate(network.state_dict().items()):
        if ("norm" in name or "before" in name) and tensor.is_floating_point():
            tensor.copy_(draw(*tensor.shape, seed=number).abs() + 0.5)
    torch.testing.assert_close(network(x), by_torch(network, x))


@pytest.mark.parametrize(("depth", "known"), [(121, 7_978_856), (169, 14_149_480)])
def test_the_parameters_of_the_known_depths(depth: int, known: int) -> None:
    with torch.device("meta"):
        network = DenseNet(DEPTHS[depth], 1000, 224, 224)
    assert count_parameters(network) == known
    assert depth == 1 + 2 * sum(DEPTHS[depth]) + len(DEPTHS[depth])


@pytest.mark.parametrize("mixing", MIXING)
def test_it_learns_eight_random_pictures_by_heart(mixing: str) -> None:
    network = tiny(spatial=MIXING[mixing])
    losses = losses_of_training(network)
    assert losses[0] > 1
    assert losses[-1] < 0.1
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DenseNet((), 5, 20, 12), "must be positive"),
        (lambda: DenseNet((1,), 5, 20, 12, growth=0), "must be positive"),
        (lambda: tiny()(draw(2, 3, 20, 12).float()), r"must be \(B, N, M, 3\), channels last, got \(2, 3, 20, 12\)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
