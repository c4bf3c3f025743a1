import torch

from diptych_model.stem import Residual, Stem


def test_each_stage_halves_the_resolution_but_the_first() -> None:
    assert Stem((5, 7, 11), (1, 2, 1))(torch.zeros(2, 3, 64, 64)).shape == (2, 11, 4, 4)


def test_a_residual_block_starts_as_its_shortcut() -> None:
    x = torch.rand(2, 5, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Residual(5, 5).eval()(x), x)


def test_a_picture_is_seen_the_same_whatever_is_in_the_batch_once_trained() -> None:
    torch.manual_seed(0)
    stem = Stem((5, 7), (1, 1))
    pictures = torch.rand(4, 3, 32, 32)
    stem(pictures)
    stem.eval()
    torch.testing.assert_close(stem(pictures)[:1], stem(pictures[:1]))
