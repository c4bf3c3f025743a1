import pytest
import torch
from torch.nn import Conv2d

from diptych_model.encoders import EfficientNetLite, load_imagenet


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return EfficientNetLite(still=2, depthwise=False).build()


def pictures(count: int, size: int = 64) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def test_each_of_several_panels_has_a_description_of_its_own(encoder) -> None:
    seen = []
    handle = encoder.head.register_forward_hook(lambda module, given, made: seen.append(made))
    t = torch.cat([pictures(2, 96), pictures(4, 96)[2:]], 3)
    with torch.no_grad():
        (features, described), (whole, _) = encoder(t, panels=2), encoder(t)
    handle.remove()
    assert torch.equal(features, whole)
    means = (seen[0].clamp(min=1e-6) ** 3).unflatten(3, (2, 3)).mean((2, 4)) ** (1 / 3)
    expected = means / means.norm(dim=1, keepdim=True)
    torch.testing.assert_close(described.unflatten(0, (2, 2)), expected.transpose(1, 2))


def test_the_stages_that_stand_still_have_no_gradient_and_the_others_have(encoder) -> None:
    encoder.zero_grad()
    features, pooled = encoder(pictures(2))
    (features.square().mean(-1).sum() + features[..., 0].sum() + pooled.sum()).backward()
    learns = [
        {conv.weight.grad is not None for conv in stage.modules() if isinstance(conv, Conv2d) and conv.groups == 1}
        for stage in encoder.stages
    ]
    assert learns == [{False}] * 2 + [{True}] * 5
    windows = [conv for conv in encoder.modules() if isinstance(conv, Conv2d) and conv.groups > 1]
    assert len(windows) == 16
    assert all(window.weight.grad is None for window in windows)
    free = EfficientNetLite(still=2).build()
    free.load_state_dict(encoder.state_dict())
    free(pictures(2))[1].sum().backward()
    windows = [conv for conv in free.stages[2:].modules() if isinstance(conv, Conv2d) and conv.groups > 1]
    assert all(window.weight.grad is not None for window in windows)
    assert encoder.stem.convolution.weight.grad is None
    assert encoder.head.convolution.weight.grad is not None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_it_computes_what_the_package_of_the_weights_computes(version: int) -> None:
    theirs_of = pytest.importorskip("efficientnet_lite_pytorch", reason="pip install efficientnet-lite-pytorch")
    torch.manual_seed(version)
    theirs = theirs_of.EfficientNet.from_name(f"efficientnet-lite{version}", image_size=64).eval()
    for name, buffer in theirs.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.2)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    mine = EfficientNetLite(version=version).build().eval()
    load_imagenet(mine, theirs.state_dict())
    x = pictures(2)
    with torch.no_grad():
        last = theirs.extract_features((x * 255 - 127) / 128)
        pooled = (last.clamp(min=1e-6) ** 3).mean((2, 3)) ** (1 / 3)
        torch.testing.assert_close(mine(x)[1], pooled / pooled.norm(dim=1, keepdim=True), atol=2e-5, rtol=1e-4)


def test_weights_of_another_version_are_refused() -> None:
    theirs_of = pytest.importorskip("efficientnet_lite_pytorch", reason="pip install efficientnet-lite-pytorch")
    state = theirs_of.EfficientNet.from_name("efficientnet-lite2", image_size=64).state_dict()
    with pytest.raises(ValueError, match="they are of another version"):
        load_imagenet(EfficientNetLite().build(), state)


def test_in_mixed_precision_a_gradient_flows_through_strided_windows(encoder) -> None:
    pictures_in = pictures(2).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        free = EfficientNetLite(still=0, depthwise=False).build()
        free.load_state_dict(encoder.state_dict())
        free(pictures_in)[1].float().sum().backward()
    assert pictures_in.grad is not None
    assert torch.isfinite(pictures_in.grad).all()
    assert pictures_in.grad.abs().max() > 0
