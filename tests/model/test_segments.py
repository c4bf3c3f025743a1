import torch

from diptych_model.config import PairConfig
from diptych_model.segments import Segments

TOKENS = torch.zeros(3, 8, 8, 96)


def made(segment: str) -> Segments:
    torch.manual_seed(0)
    return Segments(PairConfig(segment=segment))


def test_added_segments_are_one_learnable_tensor_a_panel() -> None:
    segments = made("added")
    x, z = segments(TOKENS, TOKENS)
    assert torch.equal(x[1], segments.x_seg)
    assert torch.equal(z[2], segments.z_seg)
    assert segments.width == 96
    assert not torch.equal(x, z)


def test_concatenated_segments_widen_the_tokens_and_leave_their_channels() -> None:
    segments = made("concatenated")
    x, z = segments(TOKENS + 1, TOKENS + 2)
    assert x.shape == z.shape == (3, 8, 8, segments.width)
    assert torch.equal(x[..., :96], TOKENS + 1)
    assert torch.equal(z[0, ..., 96:], segments.z_seg)


def test_the_relative_segment_lives_in_the_bias_and_leaves_the_tokens() -> None:
    for segment in ("relative", "none"):
        x, z = made(segment)(TOKENS, TOKENS + 1)
        assert torch.equal(x, TOKENS)
        assert torch.equal(z, TOKENS + 1)
        assert not list(made(segment).parameters())
