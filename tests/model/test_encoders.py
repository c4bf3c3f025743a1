"""What holds for every encoder."""

import pytest
import torch

from diptych_model.encoders import ENCODERS, Encoder, encoder_from
from diptych_model.encoders.residual import ResidualBlock


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "efficientnet-light"}, "did you mean 'efficientnet-lite'"),
        ({"kind": "efficientnet-lite", "version": 3}, "there is EfficientNet-Lite 0, 1 and 2, got version 3"),
        ({"kind": "efficientnet-lite", "still": 8}, "still 0 to 7"),
        ({"kind": "efficientnet-lite", "widths": [3]}, "has no setting 'widths'"),
        ({"kind": "residual", "depths": [1]}, "widths and depths need one entry a stage"),
        ({"kind": "residual", "widths": [0, 1, 1]}, "must be positive"),
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoder_from(values)


@pytest.mark.parametrize("kind", ENCODERS)
def test_every_encoder_gives_the_features_and_the_description_that_it_names(kind: str) -> None:
    settings = encoder_from({"kind": kind})
    assert isinstance(settings, Encoder)
    assert settings.kind == kind
    torch.manual_seed(0)
    features, pooled = settings.build().eval()(torch.rand(2, 3, 64, 64))
    side = 64 // settings.reduction
    assert features.shape == (2, side, side, settings.width)
    assert pooled.shape == (2, settings.description_width)


def test_a_residual_block_starts_as_its_shortcut() -> None:
    x = torch.rand(2, 5, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ResidualBlock(5, 5).eval()(x), x)
