import torch

from diptych_model.encoders.residual import Residual, ResidualBlock


def test_each_stage_halves_the_resolution_but_the_first() -> None:
    settings = Residual((5, 7, 11), (1, 2, 1))
    features, pooled = settings.build()(torch.zeros(2, 3, 64, 64))
    assert features.shape == (2, 64 // settings.reduction, 64 // settings.reduction, settings.width) == (2, 4, 4, 11)
    assert pooled.shape == (2, settings.description_width) == (2, 22)


def test_a_residual_block_starts_as_its_shortcut() -> None:
    x = torch.rand(2, 5, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ResidualBlock(5, 5).eval()(x), x)


def test_a_picture_is_seen_the_same_whatever_is_in_the_batch_once_trained() -> None:
    torch.manual_seed(0)
    encoder = Residual((5, 7), (1, 1)).build()
    pictures = torch.rand(4, 3, 32, 32)
    encoder(pictures)
    encoder.eval()
    torch.testing.assert_close(encoder(pictures)[0][:1], encoder(pictures[:1])[0])
