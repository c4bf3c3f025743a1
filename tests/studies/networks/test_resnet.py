"""ResNets with any mixer: against torch's own layers, the known sizes, and that they learn."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from drawing import draw, drawn, losses_of_training
from networks import MIXING
from torch import Tensor, nn

from diptych_model.mixers import Place
from diptych_studies.flops import count_parameters
from diptych_studies.mixers.convolution import PlainConvolution
from diptych_studies.mixers.squeeze_excitation import SqueezeExcitation
from diptych_studies.networks.resnet import DEPTHS, Bottleneck, ResNet


def tiny(**settings: Any) -> ResNet:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return ResNet((1, 2), 5, 20, 12, width=8, **settings)


def by_torch(network: ResNet, x: Tensor) -> Tensor:
    """The same network in the layers of torch, channels first, from the stored weights."""
    weights = dict(network.state_dict())

    def norm(y: Tensor, name: str) -> Tensor:
        parts = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(y, *parts)

    y = F.conv2d(x.permute(0, 3, 1, 2), weights["stem.convolution.H"], stride=2, padding=3)
    y = F.max_pool2d(F.relu(norm(y, "stem.norm")), 3, stride=2, padding=1)
    for layer, stride in enumerate((1, 2, 1)):
        at = f"layers.{layer}"
        z = F.relu(norm(F.conv2d(y, weights[f"{at}.narrow.H"]), f"{at}.norms.0"))
        z = F.relu(norm(F.conv2d(z, weights[f"{at}.spatial.H"], stride=stride, padding=1), f"{at}.norms.1"))
        z = norm(F.conv2d(z, weights[f"{at}.widen.H"]), f"{at}.norms.2")
        if f"{at}.shortcut.0.H" in weights:
            y = norm(F.conv2d(y, weights[f"{at}.shortcut.0.H"], stride=stride), f"{at}.shortcut.1")
        y = F.relu(y + z)
    return F.linear(y.mean((2, 3)), weights["head.weight"], weights["head.bias"])


def test_with_convolutions_it_is_the_network_that_torchs_layers_make() -> None:
    network, x = tiny().double().eval(), draw(3, 20, 12, 3)
    for number, (name, tensor) in enumerate(network.state_dict().items()):
        if ("norm" in name or "shortcut.1" in name) and tensor.is_floating_point():
            tensor.copy_(draw(*tensor.shape, seed=number).abs() + 0.5)
    torch.testing.assert_close(network(x), by_torch(network, x))


@pytest.mark.parametrize(("depth", "known"), [(26, 13_696_552), (38, 19_626_792), (50, 25_557_032)])
def test_the_parameters_of_the_known_depths(depth: int, known: int) -> None:
    with torch.device("meta"):
        network = ResNet(DEPTHS[depth], 1000, 224, 224)
    assert count_parameters(network) == known
    assert depth == 2 + 3 * sum(DEPTHS[depth])


@pytest.mark.parametrize("mixing", MIXING)
def test_a_mixer_with_a_stride_gives_the_shape_of_the_strided_convolution(mixing: str) -> None:
    for rows, cols, stride in ((5, 7, 2), (4, 6, 2), (5, 4, 1)):
        place = Place(12, 8, rows, cols, stride=stride)
        block = Bottleneck(place, MIXING[mixing] or PlainConvolution())
        assert block(draw(2, rows, cols, 12).float()).shape == (2, *place.grid, 32)


def test_squeeze_and_excitation_scales_the_branch_before_it_is_added() -> None:
    block = drawn(Bottleneck(Place(8, 2, 3, 5), PlainConvolution(), scaled=SqueezeExcitation), seed=1).eval()
    x, scaled = draw(2, 3, 5, 8), []
    assert block.scaled is not None
    block.scaled.register_forward_hook(lambda module, given, made: scaled.append(made))
    torch.testing.assert_close(block(x), (x + sum(scaled)).relu())


@pytest.mark.parametrize("mixing", MIXING)
def test_it_learns_eight_random_pictures_by_heart(mixing: str) -> None:
    network = tiny(spatial=MIXING[mixing])
    losses = losses_of_training(network)
    assert losses[0] > 1
    assert losses[-1] < 0.1
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("mixing", MIXING)
def test_a_result_does_not_depend_on_what_else_is_in_the_batch(mixing: str) -> None:
    network, x = tiny(spatial=MIXING[mixing]).eval(), draw(3, 20, 12, 3).float()
    torch.testing.assert_close(network(x)[1:2], network(x[1:2]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ResNet((), 5, 20, 12), "must be positive"),
        (lambda: ResNet((1, 0), 5, 20, 12), "must be positive"),
        (lambda: tiny(after={3: nn.Linear}), r"after takes stages from 1 to 2, got \[3\]"),
        (lambda: tiny()(draw(2, 3, 20, 12).float()), r"must be \(B, N, M, 3\), channels last, got \(2, 3, 20, 12\)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused_with_the_numbers(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
