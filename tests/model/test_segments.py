import pytest
import torch
from torch.nn.functional import adaptive_avg_pool2d

from diptych_model.network import Segments

PANEL = torch.zeros(3, 6, 6, 5)


def made(segment: str, neutral: float = 0.0) -> Segments:
    torch.manual_seed(0)
    return Segments(segment, 5, 6, neutral=neutral)


@pytest.mark.parametrize("segment", ["added", "concatenated"])
def test_on_smaller_panels_the_segments_are_averaged_to_their_size(segment: str) -> None:
    segments, small = made(segment), torch.zeros(1, 3, 3, 5)
    x, _ = segments(small, small)
    expected = adaptive_avg_pool2d(segments.x_seg.permute(2, 0, 1), 3).permute(1, 2, 0)
    torch.testing.assert_close(x[0, ..., -expected.shape[-1] :], expected)


def test_a_panel_alone_is_beside_what_says_nothing() -> None:
    alone = made("concatenated", neutral=0.5).augment_alone(PANEL + 1)
    assert torch.equal(alone[..., :5], PANEL + 1)
    assert (alone[..., 5:] == 0.5).all()
    for segment in ("added", "relative", "none"):
        assert torch.equal(made(segment).augment_alone(PANEL + 1), PANEL + 1)
    begun = made("concatenated", neutral=0.5)
    assert abs(begun.x_seg.mean().item() - 0.5) < 0.01
