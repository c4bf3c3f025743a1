import torch

from diptych_model.encoders.residual import ResidualBlock


def test_a_residual_block_starts_as_its_shortcut() -> None:
    x = torch.rand(2, 5, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ResidualBlock(5, 5).eval()(x), x)
